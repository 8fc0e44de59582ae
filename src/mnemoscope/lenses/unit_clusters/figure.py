"""Figure of task variance: a matrix of units and tasks, ordered by cluster, and the silhouettes."""

from __future__ import annotations

from typing import Any

import torch

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.colour_maps import SEQUENTIAL, draw_heat_map
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.unit_clusters.reference import normalised
from mnemoscope.lenses.unit_clusters.result import TaskVariance


def draw_task_variance(
    result: TaskVariance, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the normalised variance of active units, tasks as rows, and the silhouette of each number of clusters."""
    figure = new_figure(10, 1.6 + 0.3 * len(result.tasks)) if figure is None else figure
    matrix, scores = figure.subplots(1, 2, width_ratios=(3, 1))
    order = result.order
    shown = normalised(result.variance[order]).T.numpy()
    draw_heat_map(matrix, shown, (0.0, 1.0), colours, font_size, cmap=SEQUENTIAL, aspect="auto")
    matrix.set_yticks(range(len(result.tasks)), result.tasks)
    matrix.set(xlabel="unit, by cluster", title="share of a unit's largest variance")
    if result.clusters is not None:
        edges = torch.bincount(result.clusters[order]).cumsum(0)[:-1].tolist()
        for edge in edges:
            matrix.axvline(edge - 0.5, color="white", linewidth=1.5)
    style_axes(matrix, colours, font_size)
    if result.scores is not None:
        _draw_scores(scores, result, colours)
    style_axes(scores, colours, font_size)
    return figure


def _draw_scores(axes: Any, result: TaskVariance, colours: Colours) -> None:
    assert result.scores is not None
    numbers = range(2, len(result.scores) + 2)
    axes.plot(numbers, result.scores.numpy(), ".-", color=colours["stable"], label="units")
    if result.null is not None:
        low, high = torch.quantile(result.null, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
        axes.axhspan(low, high, color=colours["line"], label="no clusters (95%)")
    axes.set(xlabel="number of clusters", title="silhouette")
    axes.locator_params(axis="x", integer=True)
    axes.legend(frameon=False)
