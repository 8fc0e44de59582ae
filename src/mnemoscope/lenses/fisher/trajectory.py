"""Fisher memory of any network along a trajectory, linearised at every step.

A small disturbance of the state follows `e_t = A_t e_(t-1) + b_t s_t + z_t`, with the Jacobians A_t and b_t of the step
at the states and inputs of the trajectory. In coordinates in which the noise of one step has covariance I, the
accumulated noise has the covariance `C_t = A_t C_(t-1) A_t^T + I = S_t S_t^T`. A past signal in units of the noise,
`y = S^-1 A ... A b`, is carried forward by the contraction `B_t = S_t^-1 A_t S_(t-1)`.

No eigenvalue of C_t is below 1, so that its trace bounds its condition number. Where this leaves ten digits, S_t is the
Cholesky factor. Otherwise C_t is not used: `[A_t S_(t-1), I] = S_t [B_t, S_t^-1]` is an orthogonal triangularisation,
whose right side has orthonormal rows, and nothing is ever inverted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.linalg import solve_triangular

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells import Network, State, as_cell, read_inputs, run_with_cache
from mnemoscope.cells.state import map_state
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fisher.matrix_system import Noise
from mnemoscope.lenses.fisher.result import FisherMemory
from mnemoscope.lenses.fisher.sources import Direction, input_vector, noise_factor
from mnemoscope.lenses.fisher.square_root import check_steps, next_factor

WORKSPACE = 2**23
"""Numbers in all Jacobians that are formed together: 64 MB."""


def trajectory_memory(
    network: Network,
    xs: Inexact[Tensor, "time batch features"] | np.ndarray,
    direction: Direction,
    *,
    state: State | None,
    noise: Noise,
    lags: int | None,
) -> FisherMemory:
    """Compute the Fisher memory at the end of the trajectories that the inputs drive; see `fisher_memory`."""
    dynamics = Dynamics(as_cell(network, state), bounds=None)
    xs = torch.as_tensor(xs)
    if xs.dim() != 3 or 0 in xs.shape:
        order = "batch, time" if dynamics.batch_first else "time, batch"
        raise ValueError(f"along must be inputs ({order}, features), but has the shape {tuple(xs.shape)}.")
    xs = read_inputs(xs, batch_first=dynamics.batch_first).xs
    steps = xs.shape[0]
    lags = steps if lags is None else lags
    if not isinstance(lags, int) or not 1 <= lags <= steps:
        raise ValueError(f"The trajectories have {steps} steps, so that lags must be 1 to {steps}, but is {lags}.")
    xs = xs.detach().to(dtype=dynamics.dtype, device=dynamics.device)
    d = input_vector(direction, xs.shape[2], xs.dtype, xs.device)
    L = _positive_factor(noise, dynamics.size).to(dynamics.device)
    S = L.new_zeros(xs.shape[1], *L.shape)
    traces, strengths, error = S[:, :, :0], [], 0.0
    for A, b in _linear_steps(dynamics, xs, _states(dynamics, xs, state), d, L):
        S, B, new, difference = next_factor(A, S, b)
        traces, error = torch.cat([new, B @ traces], dim=2), max(error, difference)
        strengths.append(b.square().sum((1, 2)))
    check_steps(S, error)
    information = torch.stack(strengths[::-1], 1)  # the newest first, like the traces
    return FisherMemory(
        traces=traces[:, :, :lags].mT.contiguous().cpu(),
        total=traces.square().sum((1, 2)).cpu(),
        input_information=information[:, :lags].contiguous().cpu(),
        bound=(dynamics.size * information.amax(1)).cpu(),
        amplification=torch.full((lags,), torch.nan, dtype=torch.float64),
        shape=(dynamics.size,),
        route="linearised at every step",
        error=error,
        factor=(L @ S).cpu(),
        steps=steps,
    )


def _states(dynamics: Dynamics, xs: Tensor, state: State | None) -> Float[Tensor, "time batch size"]:
    """Return the state before each input."""
    start = dynamics.cell.initial_state(xs.shape[1])
    if state is not None:
        start = map_state(lambda default, given: given.detach().to(default), start, state)
    states = run_with_cache(dynamics.cell, xs, start)[1].flat()
    if not torch.isfinite(states).all():
        raise ValueError("The trajectory has NaN or infinite states, at which nothing can be linearised.")
    return torch.cat([dynamics.flatten(start)[None], states[:-1]])


def _linear_steps(
    dynamics: Dynamics, xs: Tensor, states: Tensor, d: Tensor, L: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield `A_t` (batch, size, size) and `b_t` (batch, size, 1) of every step, in the coordinates of the noise."""
    scalar = torch.equal(L, L[0, 0] * torch.eye(len(L), dtype=L.dtype, device=L.device))
    together = max(1, WORKSPACE // (xs.shape[1] * dynamics.size**2))
    for x, h in zip(xs.split(together), states.split(together), strict=True):
        flat_x, flat_h = x.flatten(0, 1), h.flatten(0, 1)
        A = dynamics.jacobian(flat_h, flat_x)
        b = _input_derivative(dynamics, flat_x, flat_h, d.expand_as(flat_x))
        A = A if scalar else solve_triangular(L, A @ L, upper=False)
        b = solve_triangular(L, b.unsqueeze(-1), upper=False)
        yield from zip(A.unflatten(0, h.shape[:2]), b.unflatten(0, h.shape[:2]), strict=True)


def _input_derivative(dynamics: Dynamics, xs: Tensor, states: Tensor, d: Tensor) -> Float[Tensor, "batch size"]:
    """Return the derivative of the next states with respect to the inputs, along d.

    It is the transpose of a transpose, because forward-mode derivatives take seconds to load.
    """
    pull_back = torch.func.vjp(lambda x: dynamics.driven(x, states), xs)[1]
    return torch.func.vjp(lambda w: pull_back(w)[0], torch.zeros_like(states))[1](d)[0]


def _positive_factor(noise: Noise, size: int) -> Float[Tensor, "size size"]:
    L = noise_factor(noise, size)
    if L.shape != (size, size) or L.triu(1).any():
        raise ValueError(
            "noise must be positive definite: along a trajectory it has few steps to reach the directions that it does "
            "not enter. Give those a small variance."
        )
    return L
