"""Figure of the score against noise in the state."""

from __future__ import annotations

from typing import Any

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.drawing.projection import to_array
from mnemoscope.lenses.noise_tolerance.result import NoiseTolerance


def draw_noise_tolerance(
    result: NoiseTolerance, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the score at each level of noise, with intervals over trials."""
    figure = new_figure(6, 3.2) if figure is None else figure
    axes = figure.add_subplot()
    levels, scores, low, high = map(to_array, (result.levels, result.scores, result.low, result.high))
    axes.fill_between(levels, low, high, color=colours["stable"], alpha=0.2, linewidth=0)
    axes.plot(levels, scores, color=colours["stable"], marker="o", markersize=4)
    if result.uninformed is not None:
        axes.axhline(result.uninformed, color=colours["muted"], linestyle=(0, (4, 2)), linewidth=1)
    positive = levels[levels > 0]
    if len(positive):
        axes.set_xscale("symlog", linthresh=positive.min(), linscale=0.5)
        axes.set_xticks(levels, [f"{level:.0%}" for level in levels])
        axes.minorticks_off()
    top = None if result.score_name == "mean square error" else 1.04
    axes.set(xlabel="noise per step, relative to the state", ylabel=result.score_name, ylim=(0, top))
    style_axes(axes, colours, font_size)
    return figure
