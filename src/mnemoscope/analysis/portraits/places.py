"""Fixed points at one parameter, with what it takes to go on from there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mnemoscope.analysis.fixed_points import FixedPoints
from mnemoscope.analysis.solvers import Newton
from mnemoscope.shapes import Float


@dataclass(frozen=True)
class Corrector(Newton):
    """Newton's method from a prediction: it need not look far, and what it does not find needs no other solver."""

    max_steps: int = 12

    @property
    def settle(self) -> Any:
        return None


@dataclass(frozen=True, eq=False)
class Place:
    """A fixed point at one parameter, with the factors of its residual's Jacobian, on the device of its system."""

    at: float
    state: Float[Tensor, " size"]
    index: int
    """Sign det(-residual'); 0 where it cannot be told."""
    q: float
    factors: tuple[Tensor, Tensor]
    jacobian: Float[Tensor, "size size"]
    """dF/dx."""
    known: tuple[float, int]
    """Where the index was last told, and what it was."""


@dataclass(frozen=True, eq=False)
class Crossing:
    """The index of a branch changes between two places on it, no further apart than the tolerance."""

    before: Place
    after: Place


@dataclass(frozen=True)
class Way:
    """Where a point went: the places passed, the end of it, and the crossings of +1 on the way."""

    passed: tuple[Place, ...]
    crossings: tuple[Crossing, ...]
    arrived: bool
    lost_at: float = 0.0
    """The nearest parameter at which the point is no longer there, if it did not arrive."""
    stuck: bool = False
    """Whether it was given up after too many steps."""

    @property
    def end(self) -> Place:
        return self.passed[-1]


def place_of(
    at: float, found: FixedPoints, point: int, device: torch.device, known: tuple[float, int] | None = None
) -> Place:
    """A found point, with its Jacobian factorised: one LU. What a search finds lies on the CPU; `device` takes it."""
    jacobian = found.jacobians[point].to(device)
    G = jacobian.clone()
    if found.continuous:
        G /= found.rate
    else:
        G.diagonal().sub_(1)
    LU, pivots, failed = torch.linalg.lu_factor_ex(G)
    size = len(G)
    swaps = int((pivots != torch.arange(1, size + 1, device=device)).sum())
    negative = int((LU.diagonal() < 0).sum()) + swaps + size
    regular = int(failed) == 0 and (found.regular is None or bool(found.regular[point]))
    index = (1 - 2 * (negative % 2)) if regular else 0
    told = (at, index) if index or known is None else known
    return Place(at, found.states[point].to(device), index, float(found.q[point]), (LU, pivots), jacobian, told)


def weakest(place: Place) -> tuple[Tensor, Tensor, float]:
    """Unit vectors w, v and least singular value s of the residual's Jacobian: `G v = s w`, by inverse iteration."""
    LU, pivots = place.factors
    v = torch.ones_like(place.state) + 0.1 * torch.arange(len(place.state)).to(place.state).cos()
    s, w = 0.0, v
    for _ in range(12):
        w = torch.linalg.lu_solve(LU, pivots, v[:, None], adjoint=True)[:, 0]
        w = w / w.norm()
        v = torch.linalg.lu_solve(LU, pivots, w[:, None])[:, 0]
        s = 1 / float(v.norm())
        v = v * s
    return w, v, s
