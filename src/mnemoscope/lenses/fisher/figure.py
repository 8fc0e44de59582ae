"""Fisher memory, at rest and along trajectories, and linear memory capacity, as figures; they need the `report` extra.

`colours` go by the names of `LIGHT`; `font_size` is the size of text, in points, that the layout has room for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.drawing.axes import new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mnemoscope.lenses.fisher.capacity import MemoryCapacity
    from mnemoscope.lenses.fisher.memory import FisherMemory
    from mnemoscope.lenses.fisher.trajectory import TrajectoryMemory

MOST_CURVES = 50
"""Trajectories that are drawn one by one; the mean is of all."""


def draw_memory(memory: FisherMemory, colours: Mapping[str, str] = LIGHT, *, font_size: float = 9) -> Figure:
    """The curve under its bound, the sum of it, and the Fisher memory matrix."""
    figure = new_figure(11.5, 3.6)
    curve, held, matrix = figure.subplots(1, 3)
    J = memory.curve.detach().numpy()
    curve.plot(J, color=colours["stable"], label="J(k)")
    bound = memory.amplification_bound.detach().numpy()
    if np.isfinite(bound).all():
        curve.plot(bound, color=colours["muted"], linestyle="dotted", label="what the amplification allows")
    curve.set(xlabel="steps ago", ylabel="Fisher information", ylim=(0, None))
    _sum(held, J, float(memory.total.detach()), "held of these", colours)
    _matrix(figure, matrix, memory.matrix.detach().numpy())
    return _finished(figure, (curve, held, matrix), (curve,), colours, font_size)


def draw_along(memory: TrajectoryMemory, colours: Mapping[str, str] = LIGHT, *, font_size: float = 9) -> Figure:
    """Curves of the trajectories and their mean, the share of the signals that is left, the mean matrix."""
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
    _matrix(figure, matrix, memory.matrix.mean(0).numpy())
    return _finished(figure, (curve, left, matrix), (curve,), colours, font_size)


def draw_capacity(capacity: MemoryCapacity, colours: Mapping[str, str] = LIGHT, *, font_size: float = 9) -> Figure:
    """R^2 over the delay, with two standard errors where it was measured, and its sum under the number of units."""
    figure = new_figure(8, 3.6)
    curve, held = figure.subplots(1, 2)
    R2, delays = capacity.curve.detach().numpy(), range(len(capacity))
    curve.plot(delays, R2, color=colours["stable"], linewidth=2)
    if capacity.curve_error is not None:
        half = 2 * capacity.curve_error.numpy()
        curve.fill_between(delays, R2 - half, R2 + half, color=colours["stable"], alpha=0.25, linewidth=0)
    curve.set(xlabel="steps ago", ylabel="recovered, R²", ylim=(min(0.0, float(R2.min())), 1.03))
    held.axhline(capacity.size, color=colours["ink"], linestyle=(0, (4, 3)), linewidth=1, label="at most")
    _sum(held, R2, float(capacity.total.detach()), "recovered of these", colours)
    return _finished(figure, (curve, held), (held,), colours, font_size)


def _sum(axes: Any, curve: np.ndarray, total: float, words: str, colours: Mapping[str, str]) -> None:
    axes.plot(curve.cumsum(0), color=colours["stable"], linewidth=2)
    axes.axhline(total, color=colours["muted"], linestyle="dotted", label="in all")
    axes.set(xlabel="steps ago, up to", ylabel=words, ylim=(0, None))


def _matrix(figure: Figure, axes: Any, J: np.ndarray) -> None:
    reach = float(abs(J).max()) or 1.0
    drawn = axes.imshow(J, cmap="RdBu_r", vmin=-reach, vmax=reach, interpolation="nearest")
    figure.colorbar(drawn, ax=axes, shrink=0.8)
    axes.set(xlabel="l, steps ago", ylabel="k, steps ago", title="J_kl")


def _finished(
    figure: Figure, panels: tuple[Any, ...], with_legend: tuple[Any, ...], colours: Mapping[str, str], font_size: float
) -> Figure:
    for axes in with_legend:
        axes.legend(frameon=False, fontsize=font_size)
    for axes in panels:
        style_axes(axes, colours, font_size)
    return figure
