"""Figure of a recording: the mean activity of single units, one line for each combination of conditions."""

from __future__ import annotations

from typing import Any

import torch

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.recording.result import Recording

UNITS = 6
"""Most units that are drawn, those whose activity varies most between the lines."""
LINES = ("stable", "unstable", "saddle-1", "slow", "marginal", "saddle-2", "saddle-3")


def draw_recording(
    recording: Recording,
    colours: Colours = LIGHT,
    *,
    conditions: tuple[str, ...] | None = None,
    figure: Any = None,
    font_size: float = 9,
) -> Figure:
    """Draw the units whose mean activity differs most between conditions; `conditions` are the first by default.

    Epochs that are the same in all trials are separated by thin lines.
    """
    conditions = recording.table.names[:1] if conditions is None else conditions
    means = recording.average(*conditions)
    names = list(recording.table.groups(*conditions)) if conditions else ["mean"]
    shown = means.activity.nan_to_num().var((0, 1), correction=0).argsort(descending=True)[:UNITS].tolist()
    figure = new_figure(2.6 * len(shown), 2.4) if figure is None else figure
    time = (recording.table.step or 1) * torch.arange(len(means.activity)).numpy()
    for axes, unit in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for line, name in enumerate(names):
            values = means.activity[:, line, unit].numpy()
            axes.plot(time, values, color=colours[LINES[line % len(LINES)]], linewidth=1.2, label=name)
        for epoch in means.table.epochs:
            axes.axvline((recording.table.step or 1) * int(epoch.starts[0]), color=colours["line"], linewidth=1)
        axes.set(title=f"unit {unit}", xlabel="step" if recording.table.step is None else "time (ms)")
        style_axes(axes, colours, font_size)
    if conditions and len(names) <= len(LINES):
        figure.axes[0].legend(frameon=False, fontsize=font_size - 1)
    return figure
