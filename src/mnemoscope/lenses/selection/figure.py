"""Figure of selection vectors: the gain of each input at every fixed point, and its angle to the selection vector."""

from __future__ import annotations

from typing import Any

import torch

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.drawing.projection import principal_projection, to_array
from mnemoscope.drawing.shades import category_colours
from mnemoscope.lenses.selection.result import SelectionVectors


def draw_selection_vectors(
    result: SelectionVectors, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the gains of the inputs over the place of the points, with their direct effect, and the cosines beside."""
    figure = new_figure(9.5, 3.6) if figure is None else figure
    gains, cosines = figure.subplots(1, 2)
    project = principal_projection(result.states)
    place = torch.from_numpy(project(to_array(result.states))[:, 0].copy())
    order = place.argsort()
    order = order[result.reliable[order]]
    shades = category_colours(len(result.names), colours)
    for number, name in enumerate(result.names):
        style = {"color": shades[number], "marker": "o", "markersize": 3.5, "linewidth": 1}
        x = place[order].numpy()
        gains.plot(x, result.gains[order, number].numpy(), label=name, **style)
        gains.plot(x, result.direct[order, number].numpy(), **{**style, "linestyle": "dotted", "fillstyle": "none"})
        cosines.plot(x, result.cosines[order, number].numpy(), **style)
    for axes in (gains, cosines):
        axes.axhline(0, color=colours["line"], linewidth=1, zorder=0)
        axes.set_xlabel(f"fixed point along {project.labels[0]}")
    gains.set(ylabel="displacement per unit of input", title="Kept (solid), at once (dotted)")
    cosines.set(ylim=(-1.05, 1.05), ylabel="cosine", title="Input effect and selection vector")
    gains.legend(frameon=False)
    for axes in (gains, cosines):
        style_axes(axes, colours, font_size)
    return figure
