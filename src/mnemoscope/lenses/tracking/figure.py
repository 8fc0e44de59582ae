"""Figure of state tracking."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import torch

from mnemoscope.drawing.axes import Figure, label_log_axis, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, PALETTE, Colours
from mnemoscope.lenses.tracking.result import StateTracking, period_means

NAMED = 6
"""Largest number of letters with a colour and an entry in the legend each."""


def draw_state_tracking(
    result: StateTracking, colours: Colours = LIGHT, *, columns: int = 3, font_size: float = 9
) -> Figure:
    """Draw the accuracy against the length, and for an affine network eigenvalues, separation and spread.

    For any other network, the second panel shows how much of a displacement is left. The panels are in rows of
    `columns`.
    """
    affine = result.eigenvalues.numel() > 0
    panels = (_draw_accuracy, _draw_eigenvalues, _draw_moments) if affine else (_draw_accuracy, _draw_displacement)
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(4.2 * columns, 3.6 * rows)
    for number, draw in enumerate(panels):
        axes = figure.add_subplot(rows, columns, number + 1)
        draw(axes, result, colours)
        style_axes(axes, colours, font_size)
    return figure


def _draw_accuracy(axes: Any, result: StateTracking, colours: Colours) -> None:
    if result.words:
        lengths = torch.arange(1, len(result.measured) + 1)
        label = f"measured, {result.words} words"
        curve = period_means(lengths, result.measured, result.period)
        axes.plot(*curve, color=colours["path"], linewidth=2.5, label=label)
        places, *edges = (
            curve[0],
            *(period_means(lengths, edge, result.period)[1] for edge in result.measured_interval()),
        )
        axes.fill_between(places, *edges, color=colours["path"], alpha=0.25, linewidth=0)
    if result.method != "words":
        curve = period_means(result.lengths, result.accuracy, result.period)
        axes.plot(*curve, color=colours["stable"], linewidth=1.5, label="predicted")
    axes.axhline(result.chance, color=colours["muted"], linewidth=0.8, linestyle=":", label="chance")
    half = result.half_time
    if isfinite(half) and half > 0:
        axes.plot([half], [(1 + result.chance) / 2], "o", color=colours["unstable"], markersize=5)
        axes.annotate(f" {half:.0f}", (half, (1 + result.chance) / 2), color=colours["ink"])
    axes.set(xscale="log", ylim=(0, 1.03), xlabel="letters", ylabel="accuracy", title="Accuracy")
    _label_lengths(axes)
    axes.legend(frameon=False, loc="lower left")


def _draw_eigenvalues(axes: Any, result: StateTracking, colours: Colours) -> None:
    turn = np.linspace(0, 2 * np.pi, 361)
    axes.plot(np.cos(turn), np.sin(turn), color=colours["muted"], linewidth=0.8)
    named = len(result.letters) <= NAMED
    names = list(PALETTE)
    for number, (letter, values) in enumerate(zip(result.letters, result.eigenvalues, strict=True)):
        colour = colours[names[number % len(names)]] if named else colours["ink"]
        size = 60 - 8 * number if named else 14  # equal eigenvalues stay visible
        real, imaginary = torch.view_as_real(values).unbind(-1)
        axes.scatter(real, imaginary, s=size, color=colour, linewidth=0, alpha=0.8, label=letter, zorder=3)
    axes.set_aspect("equal", adjustable="box")
    axes.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), xlabel="Re λ", ylabel="Im λ", title="Eigenvalues of the letters")
    if named:
        axes.legend(frameon=False, loc="center")


def _draw_moments(axes: Any, result: StateTracking, colours: Colours) -> None:
    lengths = result.lengths.numpy()
    for name, curve, colour in (("separation", result.separation, "stable"), ("spread", result.spread, "saddle-2")):
        positive = np.where(curve.numpy() > 0, curve.numpy(), np.nan)
        axes.plot(lengths, positive, color=colours[colour], linewidth=1.5, label=name)
    axes.set(xscale="log", yscale="log", xlabel="letters", title="Separation and spread of the states")
    _label_lengths(axes)
    label_log_axis(axes)
    axes.legend(frameon=False, loc="lower left")


def _label_lengths(axes: Any) -> None:
    """Label a logarithmic axis of lengths with 1, 2, 5, 10, ..."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _draw_displacement(axes: Any, result: StateTracking, colours: Colours) -> None:
    left = result.displacement.numpy()
    axes.plot(np.arange(len(left)), left, color=colours["stable"], linewidth=1.5)
    axes.fill_between(np.arange(len(left)), *result.displacement_interval.numpy(), color=colours["stable"], alpha=0.25)
    axes.set(ylim=(0, max(1.05, 1.05 * left.max())), xlabel="letters after the displacement", ylabel="share left")
    axes.set_title("Displacement towards another element")
