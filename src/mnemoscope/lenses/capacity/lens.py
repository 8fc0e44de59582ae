"""Linear memory capacity in closed form (Jaeger 2001): how well a linear readout recovers each past signal."""

from __future__ import annotations

from math import isfinite

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import show_slow
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Elman, Network, as_cell
from mnemoscope.connectivity import Connectivity
from mnemoscope.lenses.capacity.orthonormal_basis import noiseless_traces
from mnemoscope.lenses.capacity.result import MemoryCapacity
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fisher.dense import solve_dense
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem, Noise
from mnemoscope.lenses.fisher.operators import Dense, Map
from mnemoscope.lenses.fisher.sources import Direction, linear_step, noise_factor
from mnemoscope.lenses.systems import System, linearised_at


@show_slow("memory capacity")
def memory_capacity(
    system: System | MatrixSystem,
    direction: Direction = None,
    *,
    state: Float[Tensor, " ..."] | None = None,
    noise: Noise | None = None,
    signal: float = 1.0,
    lags: int = 100,
) -> MemoryCapacity:
    """Compute the linear memory capacity of a linear network, in closed form.

    With white signals of variance sigma^2, the covariance of the state is that of a network whose noise is `Q + sigma^2
    w w^T`, and the curve is the Fisher memory curve of that network, `R^2(k) = sigma^2 (A^k w)^T C^-1 A^k w`. Without
    noise it depends on the eigenvalues alone, and its total is the number of directions that w reaches, in general N.
    For a large network this is more than can be read out in floating point: a measurement there is limited by rounding.

    Args:
        system: a square matrix A or a `Connectivity`; an `Elman` cell whose nonlinearity is linear; a `Dynamics` or any
            network (its linearisation at `state`) or one fixed point, `fp[0]`; or a `MatrixSystem`. Without a state
            other networks have no closed form: use `measure_memory_capacity`.
        direction: the vector in which signals enter, w (size,); for cells and a `Dynamics` also the number of an input
            feature. A `MatrixSystem` has its own.
        state: the state (size,) at which a `Dynamics` or a network is linearised.
        noise: variance of the noise that enters every unit at every step, or its covariance (size, size). The default
            is no noise, and for a `MatrixSystem` its own noise (0 for none).
        signal: variance of the signals.
        lags: length of the curve.

    >>> import mnemoscope as ms
    >>> V = 0.9 * torch.linalg.qr(torch.randn(50, 50))[0]
    >>> round(ms.memory_capacity(V, torch.randn(50), lags=10).total.item(), 6)  # Jaeger: the number of units
    50.0

    """
    check_whole(1, lags=lags)
    if not (isfinite(signal) and signal > 0):
        raise ValueError(f"signal must be a positive variance, but is {signal}.")
    step, w, L = _linear_parts(system, direction, state, noise)
    if L is None:
        traces = noiseless_traces(step.dense(), w, lags)
        total = torch.tensor(float(traces.shape[1]), dtype=w.dtype)
        return MemoryCapacity(traces.abs().square().sum(1), total, len(w), "without noise, from the eigenvalues")
    signals = signal**0.5 * w
    solution = solve_dense(step, signals, torch.cat([L, signals[:, None]], dim=1), lags, None, len(w))
    return MemoryCapacity(solution.traces.square().sum(1), solution.total, len(w), solution.route)


def _linear_parts(
    system: System | MatrixSystem, direction: Direction, state: Tensor | None, noise: Noise | None
) -> tuple[Map, Float[Tensor, " size"], Float[Tensor, "size sources"] | None]:
    """Return one step, the direction in which signals enter, and the factor of the noise or None."""
    if isinstance(system, MatrixSystem):
        if direction is not None or state is not None or not (noise is None or _is_zero(noise)):
            raise ValueError("A MatrixSystem has its own direction W and noise eps1, eps2; noise=0 removes the noise.")
        return system.map(), system.source(), system.noise_factor() if noise is None else None
    linear = linearised_at(system, state)
    if callable(linear) and not isinstance(linear, Connectivity | Dynamics):
        _check_linear(linear)
    A, w = linear_step(linear, direction, state)
    return Dense(A), w, None if noise is None or _is_zero(noise) else noise_factor(noise, len(w))


def _check_linear(network: Network) -> None:
    """Raise unless the network is an `Elman` cell with a linear nonlinearity."""
    cell = as_cell(network)
    phi = cell.phi.description() if isinstance(cell, Elman) else None
    if phi is None or phi.name != "linear":
        noun = type(network).__name__ if phi is None else f"network of {phi.name} units"
        raise ValueError(
            f"The capacity of a {noun} is not known in closed form: measure it, measure_memory_capacity(cell), or "
            f"pass a matrix, or the state at which it is linearised, state=...."
        )


def _is_zero(noise: Noise) -> bool:
    return not torch.as_tensor(noise).any()
