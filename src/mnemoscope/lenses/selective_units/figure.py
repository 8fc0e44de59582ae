"""Figure of selectivity: the shares of all units by condition and epoch, selective ones filled."""

from __future__ import annotations

from typing import Any

import torch

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.selective_units.result import Selectivity


def draw_selectivity(
    result: Selectivity, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw a panel for each condition: units as points over the epochs, those that are selective in colour."""
    figure = (
        new_figure(1.6 + max(1.8, 0.9 * len(result.epochs)) * len(result.conditions), 3) if figure is None else figure
    )
    panels = figure.subplots(1, len(result.conditions), sharey=True, squeeze=False)[0]
    spread = torch.linspace(-0.3, 0.3, result.share.shape[2])
    for axes, condition, shares, chosen in zip(panels, result.conditions, result.share, result.selective, strict=True):
        for place in range(len(result.epochs)):
            for kind, colour in ((~chosen[place], "path"), (chosen[place], "stable")):
                axes.plot(
                    (place + spread[kind]).numpy(),
                    shares[place, kind].numpy(),
                    ".",
                    color=colours[colour],
                    markersize=4,
                )
        axes.axhline(0, color=colours["line"], linewidth=1)
        axes.set_xticks(range(len(result.epochs)), result.epochs)
        axes.set_title(condition)
        style_axes(axes, colours, font_size)
    panels[0].set_ylabel("ω² (selective units in colour)", fontsize=font_size)
    return figure
