"""Figure of the predictability lens."""

from __future__ import annotations

from typing import Any

from mnemoscope.drawing.axes import Figure, label_log_axis, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.predictability.result import Predictability


def draw_predictability(
    found: Predictability, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw iterations against length: the counts, the expectation for all inputs, and as many as there are steps."""
    if figure is None:
        figure = new_figure(6, 3.6)
    axes = figure.add_subplot()
    lengths, counts = found.lengths.tolist(), found.iterations.tolist()
    axes.plot([lengths[0], found.time], [lengths[0], found.time], color=colours["muted"], linewidth=1, linestyle=":")
    axes.annotate("as many as steps", (found.time, found.time), ha="right", va="bottom", color=colours["muted"])
    colour = {True: "stable", False: "unstable", None: "marginal"}[found.converges]
    low, high = found.predicted
    axes.fill_between(
        [lengths[-1], found.time], [counts[-1], low], [counts[-1], high], color=colours[colour], alpha=0.2, linewidth=0
    )
    axes.plot([lengths[-1], found.time], [counts[-1], high], color=colours[colour], linestyle="--", linewidth=1.2)
    axes.plot(lengths, counts, "o-", color=colours[colour], markersize=4, linewidth=1.6)
    axes.annotate(
        f"{high:,} expected",
        (found.time, high),
        (0, -6),
        ha="right",
        va="top",
        color=colours["ink"],
        textcoords="offset points",
    )
    axes.set_xscale("log", base=10)
    axes.set_yscale("log", base=10)
    axes.set_ylim(bottom=0.8)
    label_log_axis(axes)
    axes.set_xticks([*lengths, found.time], [f"{length:,}" for length in (*lengths, found.time)])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="steps", ylabel="iterations")
    error = 2 * float(found.errors[found.exponents.nan_to_num(nan=float("inf")).argmax()])
    axes.set_title(f"largest Lyapunov exponent {found.exponent:.3g} +- {error:.2g}", loc="left")
    style_axes(axes, colours, font_size)
    return figure
