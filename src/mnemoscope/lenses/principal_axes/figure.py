"""Figure of principal components: traces of all conditions, the path in the first two, and the variances."""

from __future__ import annotations

from typing import Any

import torch

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.condition_lines import draw_paths, draw_traces, legend_below
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.principal_axes.result import PrincipalComponents

SHOWN = 10
"""Most variances that are drawn."""


def draw_components(
    pca: PrincipalComponents, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the traces of the first two components, the paths of the conditions in their plane, and the variances."""
    figure = new_figure(10, 3) if figure is None else figure
    kept = min(2, len(pca.axes))
    panels = figure.subplots(1, kept + 2)
    for number in range(kept):
        draw_traces(panels[number], pca.traces[:, :, number], pca.step, colours, font_size)
        panels[number].set_title(f"component {number + 1} ({pca.share[number]:.0%})")
        style_axes(panels[number], colours, font_size)
    if kept == 2:
        draw_paths(panels[2], pca.traces[:, :, :2], colours)
        panels[2].set(xlabel="component 1", ylabel="component 2", title="conditions")
    style_axes(panels[-2], colours, font_size)
    _draw_variances(panels[-1], pca, colours, font_size)
    legend_below(figure, pca.cells, colours, font_size)
    return figure


def _draw_variances(axes: Any, pca: PrincipalComponents, colours: Colours, font_size: float) -> None:
    shown = min(SHOWN, len(pca.variance))
    places = torch.arange(1, shown + 1).numpy()
    axes.bar(places, pca.share[:shown].numpy(), color=colours["line"], label="averages")
    if pca.signal_by_component is not None:
        signal = pca.signal_by_component[:shown].numpy()
        axes.plot(places[: len(signal)], signal, ".", color=colours["stable"], label="signal, other trials")
        axes.legend(frameon=False)
    axes.set(xlabel="component", title="share of variance")
    axes.locator_params(axis="x", integer=True)
    style_axes(axes, colours, font_size)
