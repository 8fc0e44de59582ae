"""Colours of conditions: distinct ones for names, a colour map for quantities."""

from __future__ import annotations

import numpy as np

from mnemoscope.base.trial_table import Condition
from mnemoscope.drawing.colour_maps import SEQUENTIAL
from mnemoscope.drawing.palette import CATEGORIES, Colours

LIGHTEST = 0.88
"""Largest share of the colour map that is used: its end is too light on white."""


def condition_colours(condition: Condition, colours: Colours) -> list[str]:
    """Return a colour for each level: along a colour map for three or more quantities, otherwise distinct colours."""
    levels = np.array(condition.levels)
    if condition.labels or len(levels) < 3:
        return category_colours(len(levels), colours)
    return _mapped((levels - levels.min()) / np.ptp(levels))


def category_colours(number: int, colours: Colours) -> list[str]:
    """Return distinct colours, along a colour map if there are more than the palette has."""
    if number > len(CATEGORIES):
        return _mapped(np.linspace(0, 1, number))
    return [colours[name] for name in CATEGORIES[:number]]


def _mapped(shares: np.ndarray) -> list[str]:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps[SEQUENTIAL](LIGHTEST * share)) for share in shares]
