"""Newton's method and its damped least-squares variant, with a dense factorisation per step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.linear_algebra import solve
from mnemoscope.lenses.fixed_points.solvers import Linearisation, Solver, limit_step


@dataclass(frozen=True)
class LevenbergMarquardt(Solver):
    """`(J^T J + mu I) p = -J^T f` with mu = damping |f|, by batched Cholesky factorisation.

    Near a root it is Newton's method; elsewhere it descends q = 1/2 |f|^2 to its local minima, the slow points. The
    damping proportional to |f| keeps the convergence fast even where the Jacobian is singular at the root (Fan & Yuan
    2005).
    """

    def linearise(self, dynamics: Dynamics, x: Tensor, f: Tensor) -> Linearisation:
        """Return J^T J and J^T f."""
        J = dynamics.residual_jacobian(x)
        return J.mT @ J, (f.unsqueeze(1) @ J).squeeze(1)

    def step(self, dynamics: Dynamics, x: Tensor, f: Tensor, parts: Linearisation, damping: Tensor) -> Tensor:
        normal, gradient = parts
        # The floor keeps the factorisation possible at a singular Jacobian; it is below the rounding of J^T J.
        floor = torch.finfo(x.dtype).eps * normal.diagonal(dim1=1, dim2=2).sum(1)
        mu = damping * f.norm(dim=1) + floor
        damped = normal.clone()
        damped.diagonal(dim1=1, dim2=2).add_(mu[:, None])
        L, info = torch.linalg.cholesky_ex(damped)
        half = torch.linalg.solve_triangular(L, gradient.unsqueeze(2), upper=False)  # faster than cholesky_solve
        step = -torch.linalg.solve_triangular(L.mT, half, upper=True).squeeze(2)
        return torch.where((info == 0)[:, None], step, torch.inf)  # a failed factorisation is a rejected step


@dataclass(frozen=True)
class Newton(Solver):
    """Damped Newton: `J p = -f` by LU factorisation, no step longer than `reach` / damping times the size of the state.

    It converges to a root near its start whatever the stability of the root, so saddles are found like attractors; the
    limit on the step keeps it near. The damping falls with q, and grows when a step would raise q.
    """

    settle: ClassVar[Solver | None] = LevenbergMarquardt()

    reach: float = 0.2

    def linearise(self, dynamics: Dynamics, x: Tensor, f: Tensor) -> Linearisation:
        """Return the full Newton step."""
        return (-solve(dynamics.residual_jacobian(x), f),)

    def step(self, dynamics: Dynamics, x: Tensor, f: Tensor, parts: Linearisation, damping: Tensor) -> Tensor:
        return limit_step(parts[0], self.reach, x, damping)
