"""Linear memory capacity (Jaeger 2001): how well a linear readout recovers each past signal from the state."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells import Cell, Elman, adapt
from mnemoscope.cells.from_torch import TORCH_NETWORKS
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem, Noise
from mnemoscope.lenses.fisher.memory import lasting
from mnemoscope.lenses.fisher.operators import Dense, Map
from mnemoscope.lenses.fisher.solving import solve
from mnemoscope.lenses.fisher.sources import linear_step, noise_factor
from mnemoscope.lenses.fisher.takenaka import noiseless_traces
from mnemoscope.lenses.storage import load_result, save_result
from mnemoscope.lenses.systems import System

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class MemoryCapacity:
    """How well linear readouts recover past signals: of each delay the share of the variance, R^2.

    >>> import mnemoscope as ms
    >>> line = torch.diag(torch.ones(9), -1)  # a delay line of ten units
    >>> ms.memory_capacity(line, torch.eye(10)[0]).total.item()
    10.0
    >>> noisy = ms.memory_capacity(line, torch.eye(10)[0], noise=1.0)  # as much noise as signal, at every step
    >>> [round(value, 4) for value in noisy.curve[:4].tolist()]  # 1 / (k + 2)
    [0.5, 0.3333, 0.25, 0.2]
    """

    curve: Float[Tensor, " lags"]
    """R^2 of the signal k steps ago, k = 0, 1, ...; a measured one may be below 0, where the readout is worse than
    the mean."""
    total: Float[Tensor, ""]
    """The capacity: the sum over all delays; of a measured curve, over its delays."""
    size: int
    """Numbers that the readout sees; the total cannot exceed it, unless by the error of a measurement."""
    route: str
    """How it was found."""
    curve_error: Float[Tensor, " lags"] | None = None
    """Standard error of a measured curve."""
    total_error: float = nan
    """Standard error of a measured total."""

    def __len__(self) -> int:
        """Delays."""
        return self.curve.shape[0]

    def summary(self) -> str:
        """The result in words."""
        total = f"{float(self.total):.4g}"
        total += f" +- {self.total_error:.1g}" if isfinite(self.total_error) else ""
        curve = self.curve.detach()
        told = f"Linear readouts of {self.size} numbers recover {total} past signals in all (at most {self.size})."
        return f"{told} Half of a signal or more is recovered {lasting(curve, 0.5)}."

    def __repr__(self) -> str:
        return f"MemoryCapacity({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `MemoryCapacity.load` reads it back."""
        tensors = {"curve": self.curve, "total": self.total}
        tensors |= {} if self.curve_error is None else {"curve_error": self.curve_error}
        flags = {"size": self.size, "route": self.route,
                 "total_error": self.total_error if isfinite(self.total_error) else None}  # fmt: skip
        save_result(path, "MemoryCapacity", {name: tensor.detach().clone() for name, tensor in tensors.items()}, flags)

    @classmethod
    def load(cls, path: str | Path) -> MemoryCapacity:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "MemoryCapacity", "a memory capacity")
        error = nan if flags["total_error"] is None else flags["total_error"]
        return cls(**{**tensors, **flags, "total_error": error})

    def figure(self) -> Figure:
        """The curve, with error bars where it was measured, and its sum (needs the `report` extra)."""
        from mnemoscope.lenses.fisher.figure import draw_capacity

        return draw_capacity(self)


def memory_capacity(
    system: System | MatrixSystem,
    direction: Inexact[Tensor, " size"] | np.ndarray | int | None = None,
    *,
    state: Float[Tensor, " ..."] | None = None,
    noise: Noise | None = None,
    signal: float = 1.0,
    lags: int = 100,
) -> MemoryCapacity:
    """Linear memory capacity of a linear network, in closed form.

    With white signals of variance sigma^2, the covariance of the state is that of a network whose noise is `Q + sigma^2
    w w^T`, and the curve is the Fisher memory curve of that network, `R^2(k) = sigma^2 (A^k w)^T C^-1 A^k w`. Without
    noise it depends on the eigenvalues alone, and its total is the number of directions that w reaches, N in general.
    That is more than any machine can read out of a large network: what is measured there is its rounding.

    Args:
        system: a square matrix A or a `Connectivity`; an `Elman` cell whose nonlinearity is linear; a `Dynamics` (its
            linearisation at `state`), one fixed point, `fp[0]`; or a `MatrixSystem`. For other cells, whose readout is
            not known in closed form, there is `measure_memory_capacity`.
        direction: where signals enter, w (size,); for cells and a `Dynamics` also the number of an input feature. A
            `MatrixSystem` has its own.
        state: where a `Dynamics` is linearised, (size,).
        noise: variance of the noise that enters every unit at every step, or its covariance (size, size); none by
            default, and of a `MatrixSystem` its own (0: none).
        signal: variance of the signals.
        lags: length of the curve.

    >>> import mnemoscope as ms
    >>> V = 0.9 * torch.linalg.qr(torch.randn(50, 50))[0]
    >>> round(ms.memory_capacity(V, torch.randn(50), lags=10).total.item(), 6)  # Jaeger: as many as there are units
    50.0

    """
    if lags < 1 or not (isfinite(signal) and signal > 0):
        raise ValueError(f"At least 1 lag and signals of a positive variance are needed, not {lags} and {signal}.")
    step, w, L = _linear_parts(system, direction, state, noise)
    if L is None:
        traces = noiseless_traces(step.dense(), w, lags)
        total = torch.tensor(float(traces.shape[1]), dtype=w.dtype)
        return MemoryCapacity(traces.abs().square().sum(1), total, len(w), "without noise, from the eigenvalues")
    signals = signal**0.5 * w
    found = solve(step, signals, torch.cat([L, signals[:, None]], dim=1), lags, None, len(w))
    return MemoryCapacity(found.traces.square().sum(1), found.total, len(w), found.route)


def _linear_parts(
    system: System | MatrixSystem,
    direction: Tensor | np.ndarray | int | None,
    state: Tensor | None,
    noise: Noise | None,
) -> tuple[Map, Float[Tensor, " size"], Float[Tensor, "size sources"] | None]:
    """One step, where signals enter, and the factor of the noise; None where there is none."""
    if isinstance(system, MatrixSystem):
        if direction is not None or state is not None or not (noise is None or _is_zero(noise)):
            raise ValueError("A MatrixSystem has its own direction W and noise eps1, eps2; noise=0 takes that away.")
        return system.map(), system.source(), system.noise_factor() if noise is None else None
    if isinstance(system, (Cell, *TORCH_NETWORKS)):
        _refuse_nonlinear(system)
    A, w = linear_step(system, direction, state)
    return Dense(A), w, None if noise is None or _is_zero(noise) else noise_factor(noise, len(w))


def _refuse_nonlinear(network: nn.Module) -> None:
    cell = adapt(network)
    known = cell.phi.description() if isinstance(cell, Elman) else None
    if known is None or known.name != "linear":
        what = type(network).__name__ if known is None else f"network of {known.name} units"
        raise ValueError(
            f"The capacity of a {what} is not known in closed form: measure it, measured_memory_capacity(cell), or "
            f"pass a matrix, or a Dynamics and the state where it is linearised."
        )


def _is_zero(noise: Noise) -> bool:
    return not torch.as_tensor(noise).any()
