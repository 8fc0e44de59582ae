"""Newton's method for large dense states: factorised in float32, refined in float64, each factorisation used again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.matrix_free import conjugate_gradients
from mnemoscope.lenses.fixed_points.result import no_batched_lu
from mnemoscope.lenses.fixed_points.solvers import Parts, Patience, Solver, jacobians_at_a_time, limited, solve

ACCURATE = 0.1
"""A step whose linear residual |f + J p| exceeds this part of |f| is computed again in float64."""
ARRIVED = 1e-12
"""At this q no further step is taken with an old factorisation: the catalogue takes over."""

CLOSE = 1e-2
"""Relative accuracy of a damped step."""


@dataclass(frozen=True)
class ChordNewton:
    """`Newton` with `J p = -f` by LU factorisation in float32, which is used again while it still leads down.

    Residuals are in the system's own precision, so that the answer is as exact as that of `Newton`: the float32 factors
    only decide how fast it is reached (iterative refinement; Langou et al. 2006). Where the Jacobian is too near a
    singular one for float32, the step is computed in float64. After a step that lowers |f| at least half as much as its
    linear model says, more steps follow with the same factors (Shamanskii 1967): each costs two products in place of a
    factorisation.
    """

    max_steps: int = 100
    reach: float = 0.2
    reuse: int = 12
    """Upper limit of steps with one factorisation after its first."""
    thorough: bool = False
    """Whether to follow every stuck start to a minimum of q (see `Patience`)."""

    @property
    def settle(self) -> Solver:
        return MixedLevenbergMarquardt()

    @property
    def patience(self) -> Patience:
        return Patience(window=6, part=0.5, thorough=self.thorough)

    def chunk(self, size: int, device: torch.device) -> int:
        return jacobians_at_a_time(size, device)

    def linearise(self, dynamics: Dynamics, x: Tensor, f: Tensor) -> Parts:
        J = dynamics.residual_jacobian(x)
        factors = Factors.of(J)
        every = torch.arange(len(x), device=x.device)
        step = -factors.solve(f, every)
        step = step - factors.solve(f + _times(J, step), every)
        sound = (f + _times(J, step)).norm(dim=1) <= ACCURATE * f.norm(dim=1)  # False for NaN
        poor = (~sound).nonzero()[:, 0]
        if poor.numel():
            step[poor] = -solve(J[poor], f[poor])
        return factors.LU, factors.pivots, step, sound

    def step(self, dynamics: Dynamics, x: Tensor, f: Tensor, parts: Parts, damping: Tensor) -> Tensor:
        LU, pivots, newton, sound = parts
        factors = Factors(LU, pivots)
        first = limited(newton, self.reach, x, damping)
        part = first.norm(dim=1) / newton.norm(dim=1)  # of a whole step, for which the linear model says 1 - part
        where = dynamics.clamp(x + first)
        length, last = f.norm(dim=1), dynamics.residual(where)
        rows = _fell(last, length, part, sound)
        for _ in range(self.reuse):
            if not rows.numel():
                break
            ratio = last[rows].norm(dim=1) / length[rows]
            damping[rows] = damping[rows] * ratio.square().clamp(0.01, 0.5)
            length[rows] = last[rows].norm(dim=1)
            whole = -factors.solve(last[rows], rows)
            step = limited(whole, self.reach, where[rows], damping[rows])
            after = dynamics.clamp(where[rows] + step)
            f_after = dynamics.residual(after)
            better = _fell(f_after, length[rows], step.norm(dim=1) / whole.norm(dim=1))
            rows = rows[better]
            where[rows], last[rows] = after[better], f_after[better]
            rows = rows[0.5 * last[rows].square().sum(1) > ARRIVED]
        return where - x


@dataclass(frozen=True)
class MixedLevenbergMarquardt:
    """`LevenbergMarquardt` from LU factors in float32, without the product J^T J.

    With p = A^-1 y, where A = J up to float32, its equation `(J^T J + mu I) p = -J^T f` reads
    `(I + mu A^-T A^-1) y = -f`. Conjugate gradients solve that in about as many iterations as J has singular values
    below sqrt(mu), few where a start is stuck, and each takes two solutions with the factors.
    """

    max_steps: int = 24
    iterations: int = 40
    """Upper limit of conjugate-gradient iterations in one step."""

    @property
    def settle(self) -> None:
        return None

    @property
    def patience(self) -> Patience:
        return Patience()

    def chunk(self, size: int, device: torch.device) -> int:
        return jacobians_at_a_time(size, device)

    def linearise(self, dynamics: Dynamics, x: Tensor, f: Tensor) -> Parts:
        factors = Factors.of(dynamics.residual_jacobian(x))
        return factors.LU, factors.pivots

    def step(self, dynamics: Dynamics, x: Tensor, f: Tensor, parts: Parts, damping: Tensor) -> Tensor:
        factors, every = Factors(*parts), torch.arange(len(x), device=x.device)
        mu = (damping * f.norm(dim=1)).unsqueeze(1)

        def multiply(y: Tensor) -> Tensor:
            return y + mu * factors.solve(factors.solve(y, every), every, adjoint=True)

        y = conjugate_gradients(multiply, -f, torch.full_like(mu, CLOSE), self.iterations)
        return factors.solve(y, every)


@dataclass(frozen=True)
class Factors:
    """LU factorisations in float32, which solve for vectors of any size and precision."""

    LU: Float[Tensor, "batch size size"]
    pivots: Int[Tensor, "batch size"]

    @classmethod
    def of(cls, A: Float[Tensor, "batch size size"]) -> Factors:
        """Of each matrix; one by one where torch's batched factorisation can hang."""
        if not no_batched_lu(A):
            return cls(*torch.linalg.lu_factor_ex(A.float())[:2])
        LU = torch.empty(A.shape, dtype=torch.float32).mT  # columns first, as LAPACK wants and gives them
        pivots = torch.empty(A.shape[:2], dtype=torch.int32)
        for one, factor, pivot in zip(A, LU, pivots, strict=True):
            factor[:], pivot[:] = torch.linalg.lu_factor_ex(one.float())[:2]
        return cls(LU, pivots)

    def solve(
        self, b: Float[Tensor, "some size"], rows: Int[Tensor, " some"], adjoint: bool = False
    ) -> Float[Tensor, "some size"]:
        """`A x = b`, or `A^T x = b`, for those of the batch in `rows`; each b is scaled to what float32 holds."""
        scale = b.abs().amax(1, keepdim=True).clamp_min(torch.finfo(b.dtype).tiny)
        right = (b / scale).float().unsqueeze(2)
        if no_batched_lu(self.LU):
            x = torch.empty_like(right)
            for place, row in enumerate(rows.tolist()):
                x[place] = torch.linalg.lu_solve(self.LU[row], self.pivots[row], right[place], adjoint=adjoint)
        elif len(rows) == len(self.LU):
            x = torch.linalg.lu_solve(self.LU, self.pivots, right, adjoint=adjoint)
        else:
            x = torch.linalg.lu_solve(self.LU[rows], self.pivots[rows], right, adjoint=adjoint)
        return x.squeeze(2).to(b.dtype) * scale


def _fell(
    f: Float[Tensor, "some size"],
    before: Float[Tensor, " some"],
    part: Float[Tensor, " some"],
    among: Bool[Tensor, " some"] | None = None,
) -> Int[Tensor, " fewer"]:
    """Those whose residual fell at least half as much as a step of this part of a whole one should make it fall."""
    fell = f.norm(dim=1) <= (1 - 0.5 * part) * before  # False for NaN
    return (fell if among is None else fell & among).nonzero()[:, 0]


def _times(matrices: Float[Tensor, "batch rows columns"], vectors: Float[Tensor, "batch columns"]) -> Tensor:
    return torch.bmm(matrices, vectors.unsqueeze(2)).squeeze(2)
