"""Newton's method for large dense states: float32 factors, reused over several steps, with float64 residuals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.linear_algebra import multiply, no_batched_lu, solve
from mnemoscope.lenses.fixed_points.matrix_free import BriefNewtonKrylov, conjugate_gradients
from mnemoscope.lenses.fixed_points.solvers import BRIEF, Linearisation, Patience, Solver, limit_step

LARGEST_RESIDUAL = 0.1
"""A step whose linear residual |f + J p| exceeds this fraction of |f| is computed again in float64."""
CONVERGED = 1e-12
"""At this q no further step is taken with an old factorisation: the catalogue finishes the start."""
CG_ACCURACY = 1e-2
"""Relative accuracy of a damped step."""


@dataclass(frozen=True)
class MixedLevenbergMarquardt(Solver):
    """`LevenbergMarquardt` from LU factors in float32, without the product J^T J.

    With p = A^-1 y, where A = J up to float32, its equation `(J^T J + mu I) p = -J^T f` becomes
    `(I + mu A^-T A^-1) y = -f`. Conjugate gradients solve this in about as many iterations as J has singular values
    below sqrt(mu), which are few where a start is stuck. Each iteration solves twice with the factors.
    """

    max_steps: int = 24
    iterations: int = 40
    """Upper limit of conjugate-gradient iterations in one step."""

    def linearise(self, dynamics: Dynamics, x: Tensor, f: Tensor) -> Linearisation:
        """Return the float32 factors."""
        factors = Factors.of(dynamics.residual_jacobian(x))
        return factors.LU, factors.pivots

    def step(self, dynamics: Dynamics, x: Tensor, f: Tensor, parts: Linearisation, damping: Tensor) -> Tensor:
        factors, all_rows = Factors(*parts), torch.arange(len(x), device=x.device)
        mu = (damping * f.norm(dim=1)).unsqueeze(1)

        def product(y: Tensor) -> Tensor:
            return y + mu * factors.solve(factors.solve(y, all_rows), all_rows, adjoint=True)

        y = conjugate_gradients(product, -f, torch.full_like(mu, CG_ACCURACY), self.iterations)
        return factors.solve(y, all_rows)


@dataclass(frozen=True)
class ChordNewton(Solver):
    """`Newton` with `J p = -f` by LU factorisation in float32, which is reused while it still lowers the residual.

    Residuals have the precision of the system, so the answer is as exact as that of `Newton`: the float32 factors only
    affect the speed (iterative refinement; Langou et al. 2006). Where the Jacobian is too close to singular for
    float32, the step is computed in float64. After a step that lowers |f| at least half as much as its linear model
    predicts, more steps follow with the same factors (Shamanskii 1967): each costs two products instead of a
    factorisation. With `krylov`, only starts that a few steps of `NewtonKrylov` do not take to a root are factorised.
    """

    settle: ClassVar[Solver | None] = MixedLevenbergMarquardt()

    max_steps: int = 100
    reach: float = 0.2
    reuse: int = 12
    """Upper limit of steps with one factorisation after its first."""
    thorough: bool = False
    """Whether to follow every stuck start to a minimum of q (see `Patience`)."""
    krylov: bool = True
    """Whether a few steps of `NewtonKrylov` are tried first."""

    @property
    def trial(self) -> Solver | None:
        return BriefNewtonKrylov() if self.krylov else None

    @property
    def patience(self) -> Patience:
        """Less patience than `Newton`, since its steps are expensive."""
        return replace(BRIEF, thorough=self.thorough)

    def linearise(self, dynamics: Dynamics, x: Tensor, f: Tensor) -> Linearisation:
        """Return the float32 factors, the refined Newton step, and for which starts the factors suffice."""
        J = dynamics.residual_jacobian(x)
        factors = Factors.of(J)
        all_rows = torch.arange(len(x), device=x.device)
        step = -factors.solve(f, all_rows)
        step = step - factors.solve(f + multiply(J, step), all_rows)
        accurate = (f + multiply(J, step)).norm(dim=1) <= LARGEST_RESIDUAL * f.norm(dim=1)  # False for NaN
        poor = (~accurate).nonzero()[:, 0]
        if poor.numel():
            step[poor] = -solve(J[poor], f[poor])
        return factors.LU, factors.pivots, step, accurate

    def step(self, dynamics: Dynamics, x: Tensor, f: Tensor, parts: Linearisation, damping: Tensor) -> Tensor:
        """Return the sum of the steps with these factors; lowers `damping` in place as the residual falls."""
        LU, pivots, newton, accurate = parts
        factors = Factors(LU, pivots)
        first = limit_step(newton, self.reach, x, damping)
        taken = first.norm(dim=1) / newton.norm(dim=1)  # fraction of the full step
        state = dynamics.clamp(x + first)
        length, residual = f.norm(dim=1), dynamics.residual(state)
        rows = _rows_that_fell(residual, length, taken, accurate)
        for _ in range(self.reuse):
            if not rows.numel():
                break
            ratio = residual[rows].norm(dim=1) / length[rows]
            damping[rows] = damping[rows] * ratio.square().clamp(0.01, 0.5)
            length[rows] = residual[rows].norm(dim=1)
            full = -factors.solve(residual[rows], rows)
            step = limit_step(full, self.reach, state[rows], damping[rows])
            new_state = dynamics.clamp(state[rows] + step)
            new_residual = dynamics.residual(new_state)
            better = _rows_that_fell(new_residual, length[rows], step.norm(dim=1) / full.norm(dim=1))
            rows = rows[better]
            state[rows], residual[rows] = new_state[better], new_residual[better]
            rows = rows[0.5 * residual[rows].square().sum(1) > CONVERGED]
        return state - x


@dataclass(frozen=True)
class Factors:
    """LU factorisations in float32, which solve for vectors of any magnitude and precision."""

    LU: Float[Tensor, "batch size size"]
    pivots: Int[Tensor, "batch size"]

    @classmethod
    def of(cls, A: Float[Tensor, "batch size size"]) -> Factors:
        """Factorise each matrix; in a loop where torch's batched factorisation can hang or is slow."""
        if not no_batched_lu(A):
            return cls(*torch.linalg.lu_factor_ex(A.float())[:2])
        LU = torch.empty(A.shape, dtype=torch.float32, device=A.device).mT  # column-major, the layout of LAPACK
        pivots = torch.empty(A.shape[:2], dtype=torch.int32, device=A.device)
        for matrix, factor, pivot in zip(A, LU, pivots, strict=True):
            factor[:], pivot[:] = torch.linalg.lu_factor_ex(matrix.float())[:2]
        return cls(LU, pivots)

    def solve(
        self, b: Float[Tensor, "some size"], rows: Int[Tensor, " some"], adjoint: bool = False
    ) -> Float[Tensor, "some size"]:
        """Solve `A x = b`, or `A^T x = b`, for the matrices in `rows`; each b is scaled to the range of float32."""
        scale = b.abs().amax(1, keepdim=True).clamp_min(torch.finfo(b.dtype).tiny)
        right = (b / scale).float().unsqueeze(2)
        if no_batched_lu(self.LU):
            x = torch.empty_like(right)
            for position, row in enumerate(rows.tolist()):
                x[position] = torch.linalg.lu_solve(self.LU[row], self.pivots[row], right[position], adjoint=adjoint)
        elif len(rows) == len(self.LU):
            x = torch.linalg.lu_solve(self.LU, self.pivots, right, adjoint=adjoint)
        else:
            x = torch.linalg.lu_solve(self.LU[rows], self.pivots[rows], right, adjoint=adjoint)
        return x.squeeze(2).to(b.dtype) * scale


def _rows_that_fell(
    f: Float[Tensor, "some size"],
    before: Float[Tensor, " some"],
    taken: Float[Tensor, " some"],
    among: Bool[Tensor, " some"] | None = None,
) -> Int[Tensor, " fewer"]:
    """Return the rows whose residual fell at least half as much as the linear model predicts.

    After the fraction `taken` of a full step, the model predicts (1 - taken) times the residual `before`.
    """
    fell = f.norm(dim=1) <= (1 - 0.5 * taken) * before  # False for NaN
    return (fell if among is None else fell & among).nonzero()[:, 0]
