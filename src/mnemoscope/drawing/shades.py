"""Colours of conditions: distinct ones for names, a colour map for quantities."""

from __future__ import annotations

import numpy as np

from mnemoscope.base.trial_table import Condition
from mnemoscope.drawing.colour_maps import SEQUENTIAL
from mnemoscope.drawing.palette import CATEGORIES, Colours

LIGHTEST = 0.88
"""Largest share of the colour map that is used: its end is too light on white."""


def condition_colours(condition: Condition, colours: Colours) -> list[str]:
    """Return a colour for each level: along a colour map for three or more quantities, otherwise distinct colours.

    The colours of quantities are evenly spread, since levels such as coherences are often not.
    """
    number = len(condition.levels)
    return category_colours(number, colours) if condition.labels or number < 3 else _mapped(number)


def category_colours(number: int, colours: Colours) -> list[str]:
    """Return distinct colours, along a colour map if there are more than the palette has."""
    if number > len(CATEGORIES):
        return _mapped(number)
    return [colours[name] for name in CATEGORIES[:number]]


def _mapped(number: int) -> list[str]:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps[SEQUENTIAL](share)) for share in np.linspace(0, LIGHTEST, number)]
