"""Matrices as maps of colours: which colours, from where to where, and the bar that tells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FROM_0, AROUND_0 = "viridis", "RdBu_r"
"""Colours of what is never negative, such as weights, and of what is."""


def limits_of(picture: NDArray[np.floating]) -> tuple[float, float]:
    """As far below 0 as above, or from 0 on where nothing is negative; blanks do not count."""
    values = picture[~np.isnan(picture)]
    reach = float(np.abs(values).max(initial=1e-12))
    return (-reach if (values < 0).any() else 0.0), reach


def colours_of(low: float) -> Any:
    """From 0 on, the upper half of the colours, so that a colour means the same everywhere."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    whole = colormaps[AROUND_0]
    return whole if low < 0 else ListedColormap(whole(np.linspace(0.5, 1, 256)))


def bar_below(axes: Any, drawn: Any) -> Any:
    """A colour bar below the picture, where it takes no room from words, with few numbers."""
    from matplotlib.ticker import MaxNLocator

    return axes.figure.colorbar(drawn, ax=axes, location="bottom", shrink=0.8, aspect=16, ticks=MaxNLocator(2))
