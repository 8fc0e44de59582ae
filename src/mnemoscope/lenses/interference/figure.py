"""Figure of recall and interference."""

from __future__ import annotations

from math import nan
from typing import Any

from mnemoscope.drawing.axes import Figure, label_log_axis, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.interference.result import RecallInterference


def draw_recall_interference(
    recall: RecallInterference, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw measured and predicted accuracy against the number of pairs, and the power of each step in the queries."""
    figure = new_figure(8, 3.4) if figure is None else figure
    left, right = figure.subplots(1, 2)
    _draw_accuracy(left, recall, colours, font_size)
    _draw_powers(right, recall, colours)
    right.set(xlabel="step", ylabel="power", title=f"Power of each step, {recall.pairs[-1]} pairs", yscale="log")
    right.locator_params(axis="x", integer=True)
    right.margins(y=0.25)  # room for the legend
    right.legend(frameon=False, fontsize=font_size, labelcolor=colours["ink"])
    label_log_axis(right)
    for axes in (left, right):
        style_axes(axes, colours, font_size)
    return figure


def _draw_accuracy(axes: Any, recall: RecallInterference, colours: Colours, font_size: float) -> None:
    measured = recall.measured.mean(1)
    low, high = recall.interval()
    bars = [(measured - low).clamp_min(0).numpy(), (high - measured).clamp_min(0).numpy()]
    axes.errorbar(
        recall.pairs, measured.numpy(), bars, fmt="o", color=colours["ink"], markersize=5, label="measured", zorder=3
    )
    styles = {
        "predicted": (recall.predicted, "stable", "-"),
        "Gaussian interference": (recall.gaussian, "saddle-2", (0, (4, 2))),
        "signal to noise alone": (recall.closed_form, "path", (0, (1, 2))),
    }
    for label, (accuracy, colour, style) in styles.items():
        axes.plot(
            recall.pairs, accuracy.mean(1).numpy(), color=colours[colour], linestyle=style, linewidth=1.6, label=label
        )
    axes.axhline(1 / recall.classes, color=colours["muted"], linewidth=1, linestyle=(0, (4, 2)))
    axes.set(xlabel="pairs", ylabel="accuracy", ylim=(0, 1.04), title="Recall")
    axes.locator_params(axis="x", integer=True)
    axes.legend(frameon=False, fontsize=font_size, labelcolor=colours["ink"])


def _draw_powers(axes: Any, recall: RecallInterference, colours: Colours) -> None:
    """Draw the mean power of each step, with 95% intervals over sequences as bars."""
    shown = int(recall.signal.isfinite().nonzero().max()) + 1  # the queries write, too, but are not asked for
    curves = {
        "in queries that ask for it": (recall.signal, recall.signal_interval(), "stable"),
        "in other queries": (recall.interference, recall.interference_interval(), "saddle-2"),
    }
    for label, (power, edges, colour) in curves.items():
        positive, low, high = (x[:shown].where(power[:shown] > 0, nan) for x in (power, *edges))  # the axis is log
        bars = [(positive - low).clamp_min(0).numpy(), (high - positive).clamp_min(0).numpy()]
        axes.errorbar(
            range(shown),
            positive.numpy(),
            bars,
            fmt=".",
            color=colours[colour],
            markersize=5,
            elinewidth=1,
            label=label,
        )
