"""Figure of rotations: the conditions in the planes of most variance, and the fits of data and surrogates."""

from __future__ import annotations

from typing import Any

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.condition_lines import draw_paths, legend_below
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.rotations.result import Rotations

PLANES = 2
"""Most planes that are drawn."""


def draw_rotations(
    rotations: Rotations, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the paths of all conditions in up to two planes, with dots at their start, and the R^2 of both fits."""
    shown = min(PLANES, len(rotations.planes))
    figure = new_figure(3.2 * (shown + 1), 3.2) if figure is None else figure
    panels = figure.subplots(1, shown + 1)
    for plane in range(shown):
        draw_paths(panels[plane], rotations.traces[:, :, plane], colours)
        panels[plane].set(xlabel=f"plane {plane + 1}, first direction", ylabel="second direction")
        panels[plane].set_title(f"plane {plane + 1} ({rotations.shares[plane]:.0%} of variance)")
        style_axes(panels[plane], colours, font_size)
    _draw_fits(panels[shown], rotations, colours, font_size)
    legend_below(figure, rotations.cells, colours, font_size)
    return figure


def _draw_fits(axes: Any, rotations: Rotations, colours: Colours, font_size: float) -> None:
    if rotations.null is not None:
        axes.plot(*rotations.null.T.numpy(), ".", color=colours["path"], markersize=4, label="surrogates")
    axes.plot(rotations.any_fit, rotations.skew_fit, "o", color=colours["unstable"], label="data")
    axes.plot([0, 1], [0, 1], color=colours["line"], linewidth=1)
    axes.set(xlabel="R² of any linear dynamics", ylabel="R² of rotations", xlim=(0, 1), ylim=(0, 1), title="fits")
    axes.legend(frameon=False, loc="upper left")
    style_axes(axes, colours, font_size)
