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
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.linalg import solve_triangular
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Float, Inexact, Int
from mnemoscope.cells import Lengths, Network, State, as_cell, read_inputs, run_with_cache
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
    given: Inexact[Tensor, "time batch features"] | np.ndarray | PackedSequence,
    direction: Direction,
    *,
    mask: Tensor | None,
    lengths: Lengths | None,
    state: State | None,
    noise: Noise,
    lags: int | None,
) -> FisherMemory:
    """Compute the Fisher memory at the end of the trajectories that the inputs drive; see `fisher_memory`."""
    dynamics = Dynamics(as_cell(network, state), bounds=None)
    xs, steps = _sequences(dynamics, given, mask, lengths)
    longest = len(xs)
    lags = longest if lags is None else lags
    if not isinstance(lags, int) or not 1 <= lags <= longest:
        raise ValueError(f"The trajectories have {longest} steps, so that lags must be 1 to {longest}, but is {lags}.")
    d = input_vector(direction, xs.shape[2], xs.dtype, xs.device)
    L = _positive_factor(noise, dynamics.size).to(dynamics.device)
    S = L.new_zeros(xs.shape[1], *L.shape)
    traces, information, error = S[:, :, :0], S[:, 0, :0], 0.0  # the newest signal first
    for time, (A, b) in enumerate(_linear_steps(dynamics, xs, _states(dynamics, xs, steps, state), d, L)):
        new_S, B, new, difference = next_factor(A, S, b)
        going = time < steps  # a sequence that has ended keeps its memory
        S = torch.where(going[:, None, None], new_S, S)
        traces = _newest_first(going[:, None, None], new, B @ traces, traces)
        information = _newest_first(going[:, None], b.square().sum(1), information, information)
        error = max(error, difference)
    check_steps(S, error)
    return FisherMemory(
        traces=traces[:, :, :lags].mT.contiguous().cpu(),
        total=traces.square().nansum((1, 2)).cpu(),
        input_information=information[:, :lags].contiguous().cpu(),
        bound=(dynamics.size * information.nan_to_num(0).amax(1)).cpu(),
        amplification=torch.full((lags,), torch.nan, dtype=torch.float64),
        shape=(dynamics.size,),
        route="linearised at every step",
        error=error,
        factor=(L @ S).cpu(),
        steps=longest,
        lengths=None if bool((steps == longest).all()) else steps.cpu(),
    )


def _sequences(
    dynamics: Dynamics, given: Any, mask: Tensor | None, lengths: Lengths | None
) -> tuple[Float[Tensor, "time batch features"], Int[Tensor, " batch"]]:
    """Return the inputs time first, without gaps, and the number of steps of each sequence."""
    xs = given if isinstance(given, PackedSequence) else torch.as_tensor(given)
    if isinstance(xs, Tensor) and (xs.dim() != 3 or 0 in xs.shape):
        order = "batch, time" if dynamics.batch_first else "time, batch"
        raise ValueError(f"along must be inputs ({order}, features), but has the shape {tuple(xs.shape)}.")
    sequences, steps = read_inputs(xs, batch_first=dynamics.batch_first, mask=mask, lengths=lengths).without_gaps()
    if not bool((steps > 0).all()):
        raise ValueError(
            f"The mask leaves no input to {int((steps == 0).sum())} of {len(steps)} sequences: omit these sequences."
        )
    return sequences.detach().to(dtype=dynamics.dtype, device=dynamics.device), steps.to(dynamics.device)


def _newest_first(going: Tensor, new: Tensor, carried: Tensor, held: Tensor) -> Tensor:
    """Put a new signal before those carried on; in a sequence that has ended, the signals held stay, and NaN ends."""
    unknown = torch.full_like(new, torch.nan)
    return torch.where(going, torch.cat([new, carried], dim=-1), torch.cat([held, unknown], dim=-1))


def _states(
    dynamics: Dynamics, xs: Tensor, steps: Int[Tensor, " batch"], state: State | None
) -> Float[Tensor, "time batch size"]:
    """Return the state before each input."""
    start = dynamics.cell.initial_state(xs.shape[1])
    if state is not None:
        start = map_state(lambda default, given: given.detach().to(default), start, state)
    states = run_with_cache(dynamics.cell, xs, start, lengths=steps)[1].flat()
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
