"""Matrices as heat maps, with a colour map, limits and a colour bar."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.drawing.axes import style_axes
from mnemoscope.drawing.palette import Colours

SEQUENTIAL, DIVERGING = "viridis", "RdBu_r"
"""Colour maps of quantities that are never negative, such as weights, and of quantities with a sign."""


def colour_limits(picture: NDArray[np.floating]) -> tuple[float, float]:
    """Return limits symmetric around 0, or (0, largest value) where nothing is negative; NaN is ignored."""
    values = picture[~np.isnan(picture)]
    reach = float(np.abs(values).max(initial=1e-12))
    return (-reach if (values < 0).any() else 0.0), reach


def colour_map(low: float) -> Any:
    """Return the diverging map, or its upper half if `low` is 0, so that a colour means the same in every panel."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    diverging = colormaps[DIVERGING]
    return diverging if low < 0 else ListedColormap(diverging(np.linspace(0.5, 1, 256)))


def draw_heat_map(
    axes: Any,
    picture: NDArray[np.floating],
    limits: tuple[float, float],
    colours: Colours,
    font_size: float,
    cmap: Any = None,
    aspect: str = "equal",
) -> None:
    """Draw a matrix, with a colour bar of few ticks below the axes, where it takes no width from the panels."""
    from matplotlib.ticker import MaxNLocator

    low, high = limits
    cmap = colour_map(low) if cmap is None else cmap
    image = axes.imshow(picture, cmap=cmap, vmin=low, vmax=high, interpolation="nearest", aspect=aspect)
    bar = axes.figure.colorbar(image, ax=axes, location="bottom", shrink=0.8, aspect=16, ticks=MaxNLocator(2))
    bar.outline.set_visible(False)
    style_axes(bar.ax, colours, font_size - 1)
