"""Fixed points at one parameter, with the factorised Jacobian that continuation needs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.linear_algebra import index_of_factors


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


def factorised_point(
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
    """Return w, v, s of the least singular value of the residual's Jacobian, `G v = s w`, by inverse iteration."""
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
