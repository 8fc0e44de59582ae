"""Figures of Fisher memory, of linear systems and along inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.fisher.result import FisherMemory

MOST_CURVES = 50
"""Largest number of trajectories with a line each; the mean is over all."""


def draw_memory(memory: FisherMemory, colours: Colours = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw the memory curve and the Fisher memory matrix (needs the `report` extra).

    A linear system has the curve with its bound and its cumulative sum. Along inputs, the curves of the trajectories
    (of each head) and the share of the signals that is left have a panel each, with the means.
    """
    figure = new_figure(11.5, 3.6)
    curve, second, matrix = figure.subplots(1, 3)
    if memory.steps is None:
        _draw_curve(curve, memory, colours)
        draw_cumulative(second, memory.curve.detach().numpy(), float(memory.total.detach()), colours)
        second.set(ylabel="cumulative information")
        J = memory.matrix.detach().numpy()
    else:
        _draw_trajectories(curve, memory.curve.reshape(-1, memory.lags), "Fisher information", colours)
        _draw_trajectories(second, memory.remaining.reshape(-1, memory.lags), "share left", colours)
        J = _mean_matrix(memory).numpy()
    _draw_matrix(figure, matrix, J)
    finish_panels((curve, second, matrix), (curve,), colours, font_size)
    return figure


def _mean_matrix(memory: FisherMemory) -> Tensor:
    """Return the mean of J_kl over trajectories and heads, one at a time, for they may be large; NaN does not count."""
    total = count = torch.zeros(memory.lags, memory.lags, dtype=torch.float64)
    for traces in memory.traces.reshape(-1, *memory.traces.shape[-2:]):
        J = (traces @ traces.mH).real if traces.is_complex() else traces @ traces.mT
        total, count = total + J.nan_to_num(0), count + ~J.isnan()
    return total / count


def draw_cumulative(axes: Any, curve: np.ndarray, total: float, colours: Colours) -> None:
    """Draw the cumulative sum of a curve over lags, and its total over all lags as a dotted line."""
    axes.plot(curve.cumsum(0), color=colours["stable"], linewidth=2)
    axes.axhline(total, color=colours["muted"], linestyle="dotted", label="total")
    axes.set(xlabel="up to k steps ago", ylim=(0, None))


def finish_panels(panels: Sequence[Any], with_legend: Sequence[Any], colours: Colours, font_size: float) -> None:
    """Add legends to some panels, and style all of them."""
    for axes in with_legend:
        axes.legend(frameon=False, fontsize=font_size)
    for axes in panels:
        style_axes(axes, colours, font_size)


def _draw_curve(axes: Any, memory: FisherMemory, colours: Colours) -> None:
    axes.plot(memory.curve.detach().numpy(), color=colours["stable"], label="J(k)")
    bound = memory.amplification_bound.detach().numpy()
    if np.isfinite(bound).all():
        axes.plot(bound, color=colours["muted"], linestyle="dotted", label="amplification bound")
    axes.set(xlabel="k steps ago", ylabel="Fisher information", ylim=(0, None))


def _draw_trajectories(axes: Any, curves: Tensor, label: str, colours: Colours) -> None:
    many = len(curves) > 1
    if many:
        axes.plot(curves[:MOST_CURVES].mT.numpy(), color=colours["path"], linewidth=0.7, alpha=0.6)
        axes.plot([], color=colours["path"], linewidth=0.7, label="trajectories")
    axes.plot(curves.nanmean(0).numpy(), color=colours["stable"], linewidth=2, label="mean" if many else "J(k)")
    axes.set(xlabel="k steps ago", ylabel=label, ylim=(0, None))


def _draw_matrix(figure: Figure, axes: Any, J: np.ndarray) -> None:
    reach = float(np.nanmax(abs(J))) or 1.0
    image = axes.imshow(J, cmap="RdBu_r", vmin=-reach, vmax=reach, interpolation="nearest")
    figure.colorbar(image, ax=axes, shrink=0.8)
    axes.set(xlabel="l steps ago", ylabel="k steps ago", title="J_kl")
