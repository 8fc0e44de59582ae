"""Figure of trials: inputs above, targets below, with the epochs as shaded bands."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

import torch

from mnemoscope.base.lazy_imports import import_report_extra
from mnemoscope.tasks.cognitive.timeline import Trials

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = ("#59626c", "#0072b2", "#da0e53", "#d9a214", "#2fae90", "#8d26e4")
"""Colours of channels."""
BANDS = ("#f5f5f1", "#e6e6df")
"""Colours of epochs, in turn."""
MOST_LINES = len(LINES)
"""Most channels that are drawn as lines; more are drawn as an image, one row for each."""


def draw_trials(trials: Trials, input_names: tuple[str, ...], output_names: tuple[str, ...], most: int = 4) -> Figure:
    """Draw up to `most` trials, spread evenly over those given, each in a column.

    The steps of a target that do not count in the loss are left out.
    """
    import_report_extra("matplotlib")
    from mnemoscope.base.inline_figure import InlineFigure

    count, step = min(most, len(trials.table)), trials.table.step or 1.0
    shown = torch.linspace(0, len(trials.table) - 1, count).round().long().tolist()
    height = 3.0 + 0.2 * len(trials.table.conditions)
    figure = InlineFigure(figsize=(3.2 * count, height), layout="constrained")
    panels = figure.subplots(2, count, squeeze=False, sharex="col", sharey="row")
    targets = trials.batch.targets.masked_fill(~trials.batch.mask.unsqueeze(2), torch.nan)
    rows = ((trials.batch.inputs, input_names), (targets, output_names))
    for column, trial in enumerate(shown):
        for row, (values, names) in enumerate(rows):
            kept = values[: int(trials.lengths[trial]), trial]
            _draw_channels(panels[row, column], kept, names, step, legend=column == 0)
            _draw_epochs(panels[row, column], trials, trial, names=row == 0)
        panels[0, column].set_title(_title(trials, trial), fontsize=9, loc="left", pad=14)
        panels[1, column].set_xlabel("time (ms)", fontsize=8)
    panels[0, 0].set_ylabel("input", fontsize=9)
    panels[1, 0].set_ylabel("target", fontsize=9)
    return figure


def _title(trials: Trials, trial: int) -> str:
    """Return the conditions of a trial, one in each line; those without a value are left out."""
    values = {condition: float(condition.values[trial]) for condition in trials.table.conditions}
    return "\n".join(f"{each.name}: {each.label(value)}" for each, value in values.items() if not isnan(value))


def _draw_channels(axes: Any, values: torch.Tensor, names: tuple[str, ...], step: float, legend: bool) -> None:
    """Draw channels over time as lines, or as an image if there are many."""
    if len(names) > MOST_LINES:
        extent = (0, step * len(values), len(names), 0)
        axes.imshow(values.T.numpy(), aspect="auto", extent=extent, cmap="Greys", interpolation="nearest", vmin=0)
        axes.set_ylim(len(names), 0)
    else:
        time = step * torch.arange(len(values))
        for number, name in enumerate(names):
            axes.plot(time.numpy(), values[:, number].numpy(), color=LINES[number], linewidth=1.2, label=name)
        if legend:
            axes.legend(frameon=False, fontsize=7, handlelength=1)
    axes.tick_params(labelsize=7, length=2)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_epochs(axes: Any, trials: Trials, trial: int, names: bool) -> None:
    """Shade the epochs of a trial in turn; write their names above them."""
    step = trials.table.step or 1.0
    shown = [epoch for epoch in trials.table.epochs if int(epoch.lengths[trial])]
    for number, epoch in enumerate(shown):
        start, stop = step * int(epoch.starts[trial]), step * int(epoch.stops[trial])
        axes.axvspan(start, stop, color=BANDS[number % 2], linewidth=0, zorder=-1)
        if names:
            axes.text(
                (start + stop) / 2,
                1.02,
                epoch.name,
                transform=axes.get_xaxis_transform(),
                ha="center",
                fontsize=6,
                color=LINES[0],
            )
