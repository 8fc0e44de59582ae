"""Fisher memory along trajectories, and linear memory capacity, as figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mnemoscope.analysis.spectra_drawing import LIGHT, calm, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mnemoscope.analysis.fisher.capacity import MemoryCapacity
    from mnemoscope.analysis.fisher.trajectory import TrajectoryMemory

MOST_CURVES = 50
"""Trajectories that are drawn one by one; the mean is of all."""


def draw_along(memory: TrajectoryMemory, colours: Mapping[str, str] = LIGHT, *, letters: float = 9) -> Figure:
    """Curves of the trajectories and their mean, the share of the signals that is left, the mean matrix.

    Args:
        memory: what is drawn.
        colours: by the names of `LIGHT`.
        letters: size that all letters are given room for.

    """
    figure = new_figure(11.5, 3.6)
    curve, left, matrix = figure.subplots(1, 3)
    for axes, values, words in (
        (curve, memory.curve, "Fisher information"),
        (left, memory.remaining, "share that is left"),
    ):
        one_by_one, mean = values[:MOST_CURVES].numpy(), values.nanmean(0).numpy()
        if memory.batch > 1:
            axes.plot(one_by_one.T, color=colours["path"], linewidth=0.7, alpha=0.6)
            axes.plot([], color=colours["path"], linewidth=0.7, label="trajectories")
        axes.plot(mean, color=colours["stable"], linewidth=2, label="mean" if memory.batch > 1 else "J(k)")
        axes.set(xlabel="steps ago", ylabel=words, ylim=(0, None))
    curve.legend(frameon=False, fontsize=letters)
    J = memory.matrix.mean(0).numpy()
    reach = float(abs(J).max()) or 1.0
    matrix.imshow(J, cmap="RdBu_r", vmin=-reach, vmax=reach, interpolation="nearest")
    matrix.set(xlabel="l", ylabel="k")
    for axes in (curve, left, matrix):
        calm(axes, colours, letters)
    return figure


def draw_capacity(capacity: MemoryCapacity, colours: Mapping[str, str] = LIGHT, *, letters: float = 9) -> Figure:
    """R^2 over the delay, with two standard errors where it was measured, and its sum under the number of units.

    Args:
        capacity: what is drawn.
        colours: by the names of `LIGHT`.
        letters: size that all letters are given room for.

    """
    figure = new_figure(8, 3.6)
    curve, held = figure.subplots(1, 2)
    R2, delays = capacity.curve.detach().numpy(), range(len(capacity))
    curve.plot(delays, R2, color=colours["stable"], linewidth=2)
    if capacity.curve_error is not None:
        half = 2 * capacity.curve_error.numpy()
        curve.fill_between(delays, R2 - half, R2 + half, color=colours["stable"], alpha=0.25, linewidth=0)
    curve.set(xlabel="steps ago", ylabel="recovered, R²", ylim=(min(0.0, float(R2.min())), 1.03))
    held.plot(delays, R2.clip(min=0).cumsum(0), color=colours["stable"], linewidth=2)
    held.axhline(float(capacity.total.detach()), color=colours["muted"], linestyle="dotted", label="in all")
    held.axhline(capacity.size, color=colours["ink"], linestyle=(0, (4, 3)), linewidth=1, label="at most")
    held.set(xlabel="steps ago, up to", ylabel="recovered of these", ylim=(0, None))
    held.legend(frameon=False, fontsize=letters)
    for axes in (curve, held):
        calm(axes, colours, letters)
    return figure
