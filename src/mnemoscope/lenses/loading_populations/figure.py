"""Figure of a resampling: scores of drawn networks against the number of populations."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.drawing.projection import to_array
from mnemoscope.lenses.loading_populations.result import Resampling


def draw_resampling(
    result: Resampling, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the score of each drawn network by number of populations, with both controls and the trained network."""
    figure = new_figure(5.4, 3.8) if figure is None else figure
    axes = figure.subplots()
    rows = [to_array(result.shuffled), *to_array(result.scores), to_array(result.redrawn)]
    colour = [colours["path"], *[colours["stable"]] * len(result.populations), colours["saddle-1"]]
    spread = np.linspace(-0.15, 0.15, len(rows[0]))
    for place, (row, shade) in enumerate(zip(rows, colour, strict=True)):
        axes.scatter(place + spread, row, s=14, color=shade, alpha=0.8, linewidth=0)
        axes.plot([place - 0.25, place + 0.25], [np.median(row)] * 2, color=shade, linewidth=1.6)
    axes.axhline(result.trained, color=colours["ink"], linewidth=0.9, linestyle=":", label="trained network")
    axes.set_xticks(range(len(rows)), ["shuffled", *map(str, result.populations), "redrawn units"])
    axes.set(xlabel="Gaussian populations", ylabel=result.score_name, title=f"Networks of {result.size} drawn units")
    axes.legend(frameon=False)
    style_axes(axes, colours, font_size)
    return figure
