"""Fixed points at one parameter, with what it takes to go on from there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.catalogue import Catalogue
from mnemoscope.lenses.fixed_points.descent import NEARLY_CONVERGED, Tolerances
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude
from mnemoscope.lenses.fixed_points.newton import Newton
from mnemoscope.lenses.fixed_points.result import FixedPoints


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


def found_place(at: float, found: FixedPoints, point: int, device: torch.device) -> Place:
    """A point that a search found. Its results lie on the CPU; `device` takes the place."""
    regular = found.regular is None or bool(found.regular[point])
    state, jacobian = found.states[point].to(device), found.jacobians[point].to(device)
    return _factorised(at, state, float(found.q[point]), jacobian, regular, found.continuous, found.rate, None)


def corrected_place(
    system: Dynamics, at: float, guess: Float[Tensor, " size"], known: tuple[float, int] | None = None
) -> Place | None:
    """The point that Newton's method leads to from a guess, or None.

    The same as a search from one start, judged by the same catalogue, without what many starts need.
    """
    solver, catalogue, tolerances = Corrector(), _OfOne(system), Tolerances.for_dtype(system.dtype)
    x = system.clamp(guess[None])
    f = system.residual(x)
    q, damping = 0.5 * f.square().sum(1), torch.ones_like(f[:, 0])
    parts = None
    for count in range(solver.max_steps + 1):
        near = bool(q <= max(NEARLY_CONVERGED, tolerances.fixed) * magnitude(x).square() / system.size)
        if near and catalogue.takes(x, tolerances.fixed):
            state, regular = catalogue.states[0], bool(catalogue.index[0])
            jacobian, speed = system.jacobian(state[None])[0], float(catalogue.q[0]) * system.rate**2
            return _factorised(at, state, speed, jacobian, regular, system.continuous, system.rate, known)
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


class _OfOne(Catalogue):
    """A catalogue of one root: nothing in it need be recognised."""

    def takes(self, state: Float[Tensor, "1 size"], fixed: float) -> bool:
        """Refine a state, and keep it if it is a root."""
        self.add(state, fixed)
        return len(self) == 1


def _factorised(
    at: float,
    state: Tensor,
    q: float,
    jacobian: Tensor,
    regular: bool,
    continuous: bool,
    rate: float,
    known: tuple[float, int] | None,
) -> Place:
    """With one LU, and the index by its signs."""
    G = jacobian.clone()
    if continuous:
        G /= rate
    else:
        G.diagonal().sub_(1)
    LU, pivots, failed = torch.linalg.lu_factor_ex(G)
    size = len(G)
    swaps = int((pivots != torch.arange(1, size + 1, device=pivots.device)).sum())
    negative = int((LU.diagonal() < 0).sum()) + swaps + size
    index = (1 - 2 * (negative % 2)) if regular and int(failed) == 0 else 0
    told = (at, index) if index or known is None else known
    return Place(at, state, index, q, (LU, pivots), jacobian, told)


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
