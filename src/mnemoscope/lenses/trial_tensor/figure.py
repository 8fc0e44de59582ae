"""Figure of tensor components: one row for each, with its units, its course of time and its trials."""

from __future__ import annotations

from typing import Any

import torch

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.condition_lines import legend_below, line_colours
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.trial_tensor.result import TensorComponents


def draw_tensor(
    result: TensorComponents,
    colours: Colours = LIGHT,
    *,
    condition: str | None = None,
    figure: Any = None,
    font_size: float = 9,
) -> Figure:
    """Draw the factors of every component; trials are coloured by a condition, the first by default.

    Units are ordered by the component in which their weight is largest.
    """
    rank = len(result.lengths)
    figure = new_figure(9, 1.3 * rank + 0.8) if figure is None else figure
    panels = figure.subplots(rank, 3, squeeze=False, sharex="col")
    weights = result.unit_factors * result.lengths
    order = (
        weights.abs().argmax(1) * len(weights) + weights.abs().amax(1).argsort(descending=True).argsort()
    ).argsort()
    time = (result.table.step or 1) * torch.arange(len(result.time_factors)).numpy()
    groups, names = _groups(result, condition)
    for row in range(rank):
        units, course, trials = panels[row]
        units.bar(range(len(order)), result.unit_factors[order, row].numpy(), color=colours["path"], width=1.0)
        course.plot(time, result.time_factors[:, row].numpy(), color=colours["ink"], linewidth=1.3)
        for members, colour in zip(groups, line_colours(len(groups), colours), strict=True):
            trials.plot(members.numpy(), result.trial_factors[members, row].numpy(), ".", color=colour, markersize=4)
        units.set_ylabel(f"component {row + 1}")
    for axes, title in zip(panels[0], ("units", "time", "trials"), strict=True):
        axes.set_title(title)
    panels[-1][0].set_xlabel("unit, ordered")
    panels[-1][1].set_xlabel("step" if result.table.step is None else "time (ms)")
    panels[-1][2].set_xlabel("trial")
    for axes in figure.axes:
        style_axes(axes, colours, font_size)
    legend_below(figure, names, colours, font_size)
    return figure


def _groups(result: TensorComponents, condition: str | None) -> tuple[list[torch.Tensor], tuple[str, ...]]:
    """Return the trials of each value of a condition, and the names of these values."""
    names = (condition,) if condition is not None else result.table.names[:1]
    if not names:
        return [torch.arange(len(result.trial_factors))], ()
    groups = result.table.groups(*names)
    return list(groups.values()), tuple(groups)
