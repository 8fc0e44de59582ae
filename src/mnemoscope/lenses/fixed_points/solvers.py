"""How a damped step towards a root of `residual` is computed: each solver is a frozen object, batched over starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.result import no_batched_lu

Parts = tuple[Tensor, ...]
"""What a solver keeps of the linearisation at each start, each (batch, ...)."""


@dataclass(frozen=True)
class Patience:
    """When a start is stuck, and how much work it is then worth."""

    window: int = 12
    """A start is stuck when q has not fallen to ..."""
    part: float = 0.9
    """... this part of itself in that many iterations."""
    thorough: bool = True
    """Whether a minimiser of q is to follow every stuck start down to a minimum. If not, only starts that are already
    slow are settled, and others count as unfinished: where a step is dear, a new start brings more."""


@runtime_checkable
class Solver(Protocol):
    """How a damped step is computed."""

    @property
    def max_steps(self) -> int:
        """Upper limit of iterations."""
        ...

    @property
    def patience(self) -> Patience:
        """When it gives a start up."""
        ...

    @property
    def settle(self) -> Solver | None:
        """Who takes over where this solver gets stuck: one that minimises q, to tell a slow point from a failure."""
        ...

    def chunk(self, size: int, device: torch.device) -> int:
        """How many starts to iterate together for states of `size` numbers."""
        ...

    def linearise(self, dynamics: Dynamics, x: Tensor, f: Tensor) -> Parts:
        """What the steps from `x` (batch, size) with residual `f` need, whatever the damping."""
        ...

    def step(self, dynamics: Dynamics, x: Tensor, f: Tensor, parts: Parts, damping: Tensor) -> Tensor:
        """A step for each start; damping (batch,) is 0 for the full step and grows for shorter ones."""
        ...


@dataclass(frozen=True)
class Newton:
    """Damped Newton: `J p = -f` by LU factorisation, no step longer than `reach` / damping times the size of the state.

    It converges to a root near its start whatever the root's stability, so saddles are found like attractors; the limit
    on the step keeps it near. The damping falls with q, and grows when a step would raise it.
    """

    max_steps: int = 200
    reach: float = 0.2

    @property
    def settle(self) -> Solver:
        return LevenbergMarquardt()

    @property
    def patience(self) -> Patience:
        return Patience()

    def chunk(self, size: int, device: torch.device) -> int:
        return jacobians_at_a_time(size, device)

    def linearise(self, dynamics: Dynamics, x: Tensor, f: Tensor) -> Parts:
        return (-solve(dynamics.residual_jacobian(x), f),)

    def step(self, dynamics: Dynamics, x: Tensor, f: Tensor, parts: Parts, damping: Tensor) -> Tensor:
        return limited(parts[0], self.reach, x, damping)


@dataclass(frozen=True)
class LevenbergMarquardt:
    """`(J^T J + mu I) p = -J^T f` with mu = damping |f|, by batched Cholesky factorisation.

    Newton's method near a root; elsewhere it walks down q = 1/2 |f|^2 and comes to rest at its local minima, the slow
    points. The damping proportional to |f| keeps the convergence fast even where the Jacobian is singular at the root
    (Fan & Yuan 2005).
    """

    max_steps: int = 200

    @property
    def settle(self) -> None:
        return None

    @property
    def patience(self) -> Patience:
        return Patience()

    def chunk(self, size: int, device: torch.device) -> int:
        return jacobians_at_a_time(size, device)

    def linearise(self, dynamics: Dynamics, x: Tensor, f: Tensor) -> Parts:
        J = dynamics.residual_jacobian(x)
        return J.mT @ J, (f.unsqueeze(1) @ J).squeeze(1)

    def step(self, dynamics: Dynamics, x: Tensor, f: Tensor, parts: Parts, damping: Tensor) -> Tensor:
        normal, gradient = parts
        # The floor keeps the factorisation possible at a singular Jacobian; it is below what rounding does to J^T J.
        floor = torch.finfo(x.dtype).eps * normal.diagonal(dim1=1, dim2=2).sum(1)
        mu = damping * f.norm(dim=1) + floor
        damped = normal.clone()
        damped.diagonal(dim1=1, dim2=2).add_(mu[:, None])
        L, info = torch.linalg.cholesky_ex(damped)
        half = torch.linalg.solve_triangular(L, gradient.unsqueeze(2), upper=False)  # faster than cholesky_solve
        step = -torch.linalg.solve_triangular(L.mT, half, upper=True).squeeze(2)
        return torch.where((info == 0)[:, None], step, torch.inf)  # a failed factorisation is a rejected step


def jacobians_at_a_time(size: int, device: torch.device) -> int:
    """How many dense Jacobians to hold: some 8 MB of them on a CPU, which gains nothing from more, while starts lose
    what earlier ones would have found; on a GPU, which takes all at once, as many as fit six times into its memory.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return max(4, min(1024, free // (6 * 8 * size**2)))
    return max(4, min(256, 2**20 // size**2))


def limited(
    step: Float[Tensor, "batch size"], reach: float, x: Float[Tensor, "batch size"], damping: Float[Tensor, " batch"]
) -> Tensor:
    """The steps, shortened to `reach` / damping times the root mean square of the state, which counts as 1 if below."""
    limit = reach * x.norm(dim=1).clamp_min(x.shape[1] ** 0.5) / damping.clamp_min(1e-12)
    return step * (limit / step.norm(dim=1)).clamp_max(1).unsqueeze(1)


def solve(A: Float[Tensor, "batch size size"], b: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size"]:
    """`A x = b` for each of a batch; not finite where A is singular."""
    if no_batched_lu(A):
        return torch.stack([torch.linalg.solve_ex(one, right)[0] for one, right in zip(A, b, strict=True)])
    return torch.linalg.solve_ex(A, b)[0]
