"""Figure of a sequence of tokens: inputs in boxes, and below them the targets that are due."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from mnemoscope.base.lazy_imports import import_report_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 32
"""Steps in a line."""
LINES = 8
"""Most lines; of a longer sequence, the beginning and the end are drawn."""
INK, PLAIN, DUE, SAME = "#1f2933", "#eef0f2", "#2fae90", "#cfe6f5"
"""Colours of text, of inputs, of targets, and of inputs that are due somewhere."""


def draw_sequence(inputs: Sequence[str], targets: Sequence[str | None]) -> Figure:
    """Draw the names of inputs and targets, None where nothing is due; inputs that equal a target have a colour."""
    import_report_extra("matplotlib")
    from mnemoscope.base.inline_figure import InlineFigure

    lines = [range(start, min(start + WIDTH, len(inputs))) for start in range(0, len(inputs), WIDTH)]
    left_out = max(len(lines) - LINES, 0)
    shown = lines[: ceil(LINES / 2)] + lines[-(LINES // 2) :] if left_out else lines
    width = min(len(inputs), WIDTH)
    figure = InlineFigure(figsize=(1.0 + 0.32 * width, 0.3 + 0.85 * len(shown)), layout="constrained")
    axes: Any = figure.add_subplot()
    wanted = {*targets}
    for row, steps in enumerate(shown):
        top = -2.6 * row
        axes.text(-0.7, top, "input", ha="right", va="center", fontsize=8, color=INK)
        axes.text(-0.7, top - 1, "target", ha="right", va="center", fontsize=8, color=INK)
        for column, step in enumerate(steps):
            _draw_token(axes, column, top, inputs[step], SAME if inputs[step] in wanted else PLAIN)
            target = targets[step]
            if target is not None:
                _draw_token(axes, column, top - 1, target, DUE)
        axes.text(-0.45, top + 0.62, f"{steps.start}", fontsize=6, color="#59626c", va="bottom")
    if left_out:
        gap = f"{WIDTH * left_out:,} steps are left out"
        axes.text(width / 2, -2.6 * LINES / 2 + 0.95, gap, ha="center", fontsize=7, color="#59626c")
    axes.set(xlim=(-3.2, width), ylim=(-2.6 * (len(shown) - 1) - 1.6, 1.3), aspect="equal")
    axes.axis("off")
    return figure


def _draw_token(axes: Any, column: int, height: float, word: str, colour: str) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((column - 0.46, height - 0.46), 0.92, 0.92, facecolor=colour, linewidth=0))
    size = 8 if len(word) < 3 else 5.5
    axes.text(column, height, word, ha="center", va="center", fontsize=size, color=INK)
