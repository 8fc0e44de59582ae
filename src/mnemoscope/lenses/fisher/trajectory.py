"""Fisher memory of any network along a trajectory, where every step has a linear part of its own.

A small disturbance of the state goes on as `e_t = A_t e_(t-1) + b_t s_t + z_t`, with the Jacobians A_t and b_t of the
step at the states and inputs of the trajectory. In the coordinates of the noise, in which that of one step is I, what
has gathered has the covariance `C_t = A_t C_(t-1) A_t^T + I = S_t S_t^T`. A past signal as it stands in the noise,
`y = S^-1 A ... A b`, goes on by the contraction `B_t = S_t^-1 A_t S_(t-1)`.

No eigenvalue of C_t is below 1, so that its trace bounds its condition. Where that leaves ten digits, S_t is
Cholesky's. Otherwise C_t is not used: `[A_t S_(t-1), I] = S_t [B_t, S_t^-1]` is an orthogonal triangularisation, whose
right side has orthonormal rows, and nothing is ever inverted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.linalg import solve_triangular

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells import Cell, State, run_with_cache
from mnemoscope.cells.state import map_state
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fisher.covariance import check_steps, next_factor
from mnemoscope.lenses.fisher.matrix_system import Noise
from mnemoscope.lenses.fisher.memory import lasting
from mnemoscope.lenses.fisher.sources import noise_factor
from mnemoscope.lenses.storage import load_result, save_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AT_ONCE = 2**23
"""Numbers of all Jacobians that are formed at once: 64 MB."""


@dataclass(frozen=True)
class TrajectoryMemory:
    """What the last states of trajectories tell of the signals before, each trajectory for itself.

    The noise is small: it does not lead away from the trajectory, and is added to the state after every step.

    >>> import mnemoscope as ms
    >>> memory = ms.fisher_along(torch.nn.GRU(3, 16), torch.randn(50, 8, 3), 0)
    >>> memory.curve.shape, memory.total.shape
    (torch.Size([8, 50]), torch.Size([8]))
    >>> bool((memory.remaining <= 1).all())
    True
    """

    traces: Float[Tensor, "batch lags size"]
    """The signal k steps ago as it stands in the last state, in units of the noise there."""
    total: Float[Tensor, " batch"]
    """`J_tot = sum_k J(k)`, over the whole trajectory."""
    entering: Float[Tensor, "batch lags"]
    """What the signal k steps ago was worth as it entered, `b^T Q^-1 b`: less where units were saturated."""
    bound: Float[Tensor, " batch"]
    """What the total cannot exceed: the size of the state times what the best signal was worth."""
    factor: Float[Tensor, "batch size size"]
    """S, `C = S S^T`, of the covariance that the noise has in the last state."""
    steps: int
    """Of the trajectory."""
    error: float
    """By how much two ways to a signal as it comes in differ; 0 where no step needed a second."""

    @property
    def batch(self) -> int:
        """Trajectories."""
        return self.traces.shape[0]

    @property
    def lags(self) -> int:
        """Length of the curve."""
        return self.traces.shape[1]

    @property
    def size(self) -> int:
        """Numbers of the state."""
        return self.traces.shape[2]

    @property
    def curve(self) -> Float[Tensor, "batch lags"]:
        """The Fisher memory curve J(k), k = 0, 1, ... steps before the last."""
        return self.traces.square().sum(2)

    @property
    def matrix(self) -> Float[Tensor, "batch lags lags"]:
        """The Fisher memory matrix J_kl; off the diagonal, how signals stand in each other's way."""
        return self.traces @ self.traces.mT

    @property
    def remaining(self) -> Float[Tensor, "batch lags"]:
        """Which share of what a signal was worth as it entered is left; NaN where it was worth nothing."""
        return self.curve / self.entering

    def summary(self) -> str:
        """The result in words."""
        return " ".join(_sentences(self))

    def __repr__(self) -> str:
        return f"TrajectoryMemory({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `TrajectoryMemory.load` reads it back."""
        tensors = {name: getattr(self, name) for name in ("traces", "total", "entering", "bound", "factor")}
        save_result(path, "TrajectoryMemory", tensors, {"steps": self.steps, "error": self.error})

    @classmethod
    def load(cls, path: str | Path) -> TrajectoryMemory:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "TrajectoryMemory", "a Fisher memory along trajectories")
        return cls(**tensors, **flags)

    def figure(self) -> Figure:
        """The curves of all trajectories, what is left of the signals, and the mean matrix (needs `report`)."""
        from mnemoscope.lenses.fisher.figure import draw_along

        return draw_along(self)


def fisher_along(
    cell: Cell | nn.Module,
    xs: Inexact[Tensor, "time batch features"] | np.ndarray,
    direction: Inexact[Tensor, " features"] | np.ndarray | int | None = None,
    *,
    state: State | None = None,
    noise: Noise = 1.0,
    lags: int | None = None,
) -> TrajectoryMemory:
    """How much of each past signal the state of a network holds at the end of trajectories.

    Args:
        cell: a `Cell` or a torch.nn recurrent module; it is copied, and looked at in float64.
        xs: the inputs (time, batch, features) that lead along the trajectories, whatever `batch_first` a module has.
        direction: how signals are added to the inputs: the number of a feature, or a vector (features,).
        state: where the trajectories begin; the cell's initial state by default.
        noise: variance of the noise that is added to every number of the flat state after each step, or its covariance
            (size, size), positive definite. The curve goes with 1 / noise: the noise is small, and sets the unit.
        lags: length of the curve that is kept; the whole trajectory by default.

    Of a linear network it is `fisher_memory` of so many steps, whatever the trajectory:

    >>> import mnemoscope as ms
    >>> cell = ms.cells.Elman(2, 8, "linear")
    >>> V, U = cell.connectivity().detach(), cell.drive.weight.detach()
    >>> along = ms.fisher_along(cell, torch.randn(30, 1, 2), 1)
    >>> torch.allclose(along.curve[0], ms.fisher_memory(V, U[:, 1], lags=30, horizon=30).curve)
    True

    """
    dynamics = Dynamics(cell, bounds=None)
    xs = torch.as_tensor(xs)
    if xs.dim() != 3 or 0 in xs.shape:
        raise ValueError(f"xs must be inputs (time, batch, features), but has the shape {tuple(xs.shape)}.")
    steps = xs.shape[0]
    lags = steps if lags is None else lags
    if not isinstance(lags, int) or not 1 <= lags <= steps:
        raise ValueError(f"The trajectories have {steps} steps, so that lags must be 1 to {steps}, but is {lags}.")
    xs = xs.detach().to(dtype=dynamics.dtype, device=dynamics.device)
    d = _input_direction(direction, xs)
    L = _positive_factor(noise, dynamics.size).to(dynamics.device)
    S = L.new_zeros(xs.shape[1], *L.shape)
    traces, entering, error = S[:, :, :0], [], 0.0
    for A, b in _linear_steps(dynamics, xs, _states(dynamics, xs, state), d, L):
        S, B, new, off = next_factor(A, S, b)
        traces, error = torch.cat([new, B @ traces], dim=2), max(error, off)
        entering.append(b.square().sum((1, 2)))
    check_steps(S, error)
    worth = torch.stack(entering[::-1], 1)  # the newest first, as the traces
    total, bound = traces.square().sum((1, 2)), dynamics.size * worth.amax(1)
    kept, left, factor = traces[:, :, :lags].mT.contiguous().cpu(), worth[:, :lags].contiguous().cpu(), (L @ S).cpu()
    return TrajectoryMemory(kept, total.cpu(), left, bound.cpu(), factor, steps, error)


def _states(dynamics: Dynamics, xs: Tensor, state: State | None) -> Float[Tensor, "time batch size"]:
    """The state before each input."""
    start = dynamics.cell.initial_state(xs.shape[1])
    if state is not None:
        start = map_state(lambda own, given: given.detach().to(own), start, state)
    states = run_with_cache(dynamics.cell, xs, start)[1].flat()
    if not torch.isfinite(states).all():
        raise ValueError("The trajectory has NaN or infinite states: there is nothing to linearise at.")
    return torch.cat([dynamics.flatten(start)[None], states[:-1]])


def _linear_steps(
    dynamics: Dynamics, xs: Tensor, states: Tensor, d: Tensor, L: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """`A_t` (batch, size, size) and `b_t` (batch, size, 1) of every step, in the coordinates of the noise."""
    together = max(1, AT_ONCE // (xs.shape[1] * dynamics.size**2))
    for x, h in zip(xs.split(together), states.split(together), strict=True):
        flat_x, flat_h = x.flatten(0, 1), h.flatten(0, 1)
        A = dynamics.jacobian(flat_h, flat_x)
        b = _along_input(dynamics, flat_x, flat_h, d.expand_as(flat_x))
        A = A if _is_multiple_of_one(L) else solve_triangular(L, A @ L, upper=False)
        b = solve_triangular(L, b.unsqueeze(-1), upper=False)
        yield from zip(A.unflatten(0, h.shape[:2]), b.unflatten(0, h.shape[:2]), strict=True)


def _along_input(dynamics: Dynamics, xs: Tensor, states: Tensor, d: Tensor) -> Float[Tensor, "batch size"]:
    """How the next states move with the inputs along d: the transpose of the transpose, as forward derivatives first
    load for seconds.
    """
    pull_back = torch.func.vjp(lambda x: dynamics.driven(x, states), xs)[1]
    return torch.func.vjp(lambda w: pull_back(w)[0], torch.zeros_like(states))[1](d)[0]


def _input_direction(
    direction: Inexact[Tensor, " features"] | np.ndarray | int | None, xs: Tensor
) -> Float[Tensor, " features"]:
    features = xs.shape[2]
    if direction is None:
        if features > 1:
            raise ValueError(f"There are {features} input features: pass direction=0 ... {features - 1}, or a vector.")
        direction = 0
    if isinstance(direction, (int, np.integer)):
        if not 0 <= direction < features:
            raise ValueError(f"There are {features} input features, numbered from 0, but direction is {direction}.")
        return torch.eye(features, dtype=xs.dtype, device=xs.device)[direction]
    d = torch.as_tensor(direction).detach().to(xs)
    if d.shape != (features,) or not torch.isfinite(d).all() or not d.any():
        raise ValueError(
            f"direction must be {features} finite numbers, not all of them 0, but has the shape {tuple(d.shape)}: it "
            f"lies in the space of the inputs."
        )
    return d


def _positive_factor(noise: Noise, size: int) -> Float[Tensor, "size size"]:
    L = noise_factor(noise, size)
    if L.shape != (size, size) or L.triu(1).any():
        raise ValueError(
            "noise must be positive definite: along a trajectory it has few steps to reach the directions that it does "
            "not enter. Give those a small variance."
        )
    return L


def _is_multiple_of_one(L: Tensor) -> bool:
    return torch.equal(L, L[0, 0] * torch.eye(len(L), dtype=L.dtype, device=L.device))


def _sentences(memory: TrajectoryMemory) -> list[str]:
    many = f"{memory.batch} trajectories" if memory.batch > 1 else "a trajectory"
    totals = memory.total
    spread = f" ({float(totals.min()):.4g} to {float(totals.max()):.4g})" if memory.batch > 1 else ""
    said = [
        f"After {many} of {memory.steps} step{'s' if memory.steps > 1 else ''}, a state of {memory.size} numbers holds "
        f"{float(totals.mean()):.4g}{spread} of past signals; a new one is worth "
        f"{float(memory.entering[:, 0].mean()):.4g}."
    ]
    curve = memory.curve.mean(0)
    said.append(f"Half of what is held of that or more is left {lasting(curve, float(curve[0]) / 2)}.")
    if memory.error > 1e-8:
        said.append(f"Correct to about {memory.error:.0e}.")
    return said
