"""Fixed points at one parameter, with the factorised Jacobian that continuation needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.catalogue import Catalogue
from mnemoscope.lenses.fixed_points.descent import NEARLY_CONVERGED, Tolerances
from mnemoscope.lenses.fixed_points.linear_algebra import index_of_factors, magnitude
from mnemoscope.lenses.fixed_points.newton import Newton
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.fixed_points.solvers import Solver


@dataclass(frozen=True)
class NewtonCorrector(Newton):
    """Newton's method from a prediction: it needs few steps, and no other solver takes over if it fails."""

    settle: ClassVar[Solver | None] = None

    max_steps: int = 12


@dataclass(frozen=True, eq=False)
class ContinuationPoint:
    """A fixed point at one parameter, with the LU factors of the residual's Jacobian, on the device of its system."""

    at: float
    """The parameter."""
    state: Float[Tensor, " size"]
    index: int
    """Sign det(-residual'); 0 if it is not known."""
    q: float
    """1/2 |residual|^2."""
    factors: tuple[Tensor, Tensor]
    """LU factors and pivots of the residual's Jacobian."""
    jacobian: Float[Tensor, "size size"]
    """dF/dx."""
    last_known: tuple[float, int]
    """The parameter at which the index was last known, and its value there."""


@dataclass(frozen=True)
class BranchSegment:
    """Result of continuing one point: the points on the way and the crossings of +1, where the index changes."""

    points: tuple[ContinuationPoint, ...]
    crossings: tuple[tuple[ContinuationPoint, ContinuationPoint], ...]
    """Points before and after each change of the index, no further apart than the tolerance."""
    arrived: bool
    """Whether the target parameter was reached."""
    lost_at: float = 0.0
    """The nearest parameter at which the point no longer exists, if it did not arrive."""
    stuck: bool = False
    """Whether the continuation stopped after too many steps."""

    @property
    def end(self) -> ContinuationPoint:
        """The last point."""
        return self.points[-1]


def found_point(system: Dynamics, at: float, found: FixedPoints, number: int) -> ContinuationPoint:
    """Return a point of a search, moved from the CPU to the device of the system."""
    regular = found.regular is None or bool(found.regular[number])
    state, jacobian = found.states[number].to(system.device), found.jacobians[number].to(system.device)
    return _factorised(system, at, state, float(found.q[number]), jacobian, regular)


def corrected_point(
    system: Dynamics, at: float, guess: Float[Tensor, " size"], last_known: tuple[float, int] | None = None
) -> ContinuationPoint | None:
    """Return the point to which Newton's method converges from a guess, or None.

    This is a `Descent` from one start, with the same acceptance test but without the parts that many starts need.
    """
    solver, catalogue, tolerances = NewtonCorrector(), Catalogue(system), Tolerances.for_dtype(system.dtype)
    x = system.clamp(guess[None])
    f = system.residual(x)
    q, damping = 0.5 * f.square().sum(1), torch.ones_like(f[:, 0])
    parts = None
    for count in range(solver.max_steps + 1):
        if bool(q <= max(NEARLY_CONVERGED, tolerances.fixed) * magnitude(x).square() / system.size):
            catalogue.add(x, tolerances.fixed)
        if len(catalogue):
            state, jacobian = catalogue.states[0], system.jacobian(catalogue.states)[0]
            q_refined, regular = float(catalogue.q[0]) * system.rate**2, bool(catalogue.index[0])
            return _factorised(system, at, state, q_refined, jacobian, regular, last_known)
        if count == solver.max_steps or not bool(torch.isfinite(q)):
            break
        parts = solver.linearise(system, x, f) if parts is None else parts
        x_new = system.clamp(x + solver.step(system, x, f, parts, damping))
        f_new = system.residual(x_new)
        q_new = 0.5 * f_new.square().sum(1)
        if bool(q_new < q):
            damping = damping * (q_new / q).clamp(0.01, 0.5)
            x, f, q, parts = x_new, f_new, q_new, None
        else:
            damping = (damping * 4).clamp_min(1e-3)
    return None


def _factorised(
    system: Dynamics,
    at: float,
    state: Tensor,
    q: float,
    jacobian: Tensor,
    regular: bool,
    last_known: tuple[float, int] | None = None,
) -> ContinuationPoint:
    """Factorise the residual's Jacobian once, and read the index off the signs of the factors."""
    G = jacobian.clone()
    if system.continuous:
        G /= system.rate
    else:
        G.diagonal().sub_(1)
    LU, pivots, failed = torch.linalg.lu_factor_ex(G)
    index = int(index_of_factors(LU, pivots)) if regular and int(failed) == 0 else 0
    known = (at, index) if index or last_known is None else last_known
    return ContinuationPoint(at, state, index, q, (LU, pivots), jacobian, known)


def smallest_singular_triplet(point: ContinuationPoint) -> tuple[Tensor, Tensor, float]:
    """Return unit vectors w, v and the least singular value s of the residual's Jacobian: `G v = s w`.

    They come from inverse iteration with the factors of the point.
    """
    LU, pivots = point.factors
    v = torch.ones_like(point.state) + 0.1 * torch.arange(len(point.state)).to(point.state).cos()
    s, w = 0.0, v
    for _ in range(12):
        w = torch.linalg.lu_solve(LU, pivots, v[:, None], adjoint=True)[:, 0]
        w = w / w.norm()
        v = torch.linalg.lu_solve(LU, pivots, w[:, None])[:, 0]
        s = 1 / float(v.norm())
        v = v * s
    return w, v, s
