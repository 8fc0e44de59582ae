"""Figure of demixed components: a row of traces for each marginalisation, and the variance that it has."""

from __future__ import annotations

from typing import Any

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.condition_lines import draw_traces, legend_below, line_colours
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.demixing.result import DemixedComponents

SHOWN = 2
"""Most components of a marginalisation that are drawn."""


def draw_demixed(
    dpca: DemixedComponents, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the first components of every marginalisation in a column, and bars of how their variance is mixed."""
    number, shown = len(dpca.marginals), min(SHOWN, dpca.decoders.shape[1])
    figure = new_figure(2.6 * (number + 1), 2.2 * shown + 0.6) if figure is None else figure
    panels = figure.subplots(shown, number + 1, squeeze=False, sharex="col")
    for column, name in enumerate(dpca.marginals):
        for row in range(shown):
            axes = panels[row][column]
            draw_traces(axes, dpca.traces[column, row], dpca.step, colours, font_size)
            axes.set_title(f"{name} {row + 1}")
            axes.sharey(panels[0][column])  # the same scale shows which components are small
            style_axes(axes, colours, font_size)
    for row in range(shown):
        _draw_mixture(panels[row][number], dpca, row, colours, font_size)
    legend_below(figure, dpca.cells, colours, font_size)
    return figure


def _draw_mixture(axes: Any, dpca: DemixedComponents, component: int, colours: Colours, font_size: float) -> None:
    """Draw for one component of each marginalisation how much variance of each marginalisation it reconstructs."""
    names, left = [*dpca.marginals], [0.0] * len(dpca.marginals)
    for part, colour in enumerate(line_colours(len(names), colours)):
        widths = dpca.explained[:, component, part].clamp_min(0).tolist()
        axes.barh(names, widths, left=left, color=colour, height=0.7, label=names[part])
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set(title=f"variance, {'first' if component == 0 else 'second'} of each")
    if component == 0:
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 2}
        axes.legend(frameon=False, title="of", title_fontsize=font_size - 1, **place)
    style_axes(axes, colours, font_size)
