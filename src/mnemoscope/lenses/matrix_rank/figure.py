"""Figure of the scores of truncated matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.drawing.projection import to_array
from mnemoscope.lenses.matrix_rank.result import RankScores


def draw_rank_scores(
    result: RankScores, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the score against the rank, with random terms as a control, and the sizes of the terms."""
    figure = new_figure(10, 3.8) if figure is None else figure
    left, right = figure.subplots(1, 2)
    left.axhline(result.full, color=colours["ink"], linewidth=0.9, linestyle=":", label="all terms")
    left.axhline(result.without, color=colours["path"], linewidth=0.9, linestyle=":", label="none")
    controls = to_array(result.control_scores)
    ranks = np.array(result.ranks)
    if controls.shape[1]:
        left.fill_between(ranks, controls.min(1), controls.max(1), color=colours["path"], alpha=0.25, linewidth=0)
        left.plot(ranks, controls.mean(1), color=colours["path"], linewidth=1, label="random terms")
    left.plot(ranks, to_array(result.scores), color=colours["stable"], marker="o", markersize=4, label="leading terms")
    if result.retrained is not None:
        after = to_array(result.retrained)
        left.plot(ranks, after, color=colours["slow"], marker="s", markersize=4, label="trained again")
    left.set_xscale("symlog", linthresh=4, linscale=1.2)
    shown = [rank for rank in result.ranks if rank <= 4 or rank & (rank - 1) == 0 or rank == max(result.ranks)]
    left.set_xticks(shown, [str(rank) for rank in shown])
    left.minorticks_off()
    left.set(xlabel="rank", ylabel=result.score_name, title="Performance that remains")
    left.legend(frameon=False)
    share = np.cumsum(to_array(result.sizes))
    right.plot(np.arange(1, len(share) + 1), share, color=colours["stable"])
    right.set(xlabel="terms", ylim=(0, 1.03), title="Share of the leading terms")
    right.set_ylabel("squared recurrent input" if result.by == "inputs" else "squared matrix")
    for axes in (left, right):
        style_axes(axes, colours, font_size)
    return figure
