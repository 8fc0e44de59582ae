"""Continuation of one fixed point in the parameter: tangent, correction, and halving where a step cannot be trusted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mnemoscope.analysis.catalogue import magnitude
from mnemoscope.analysis.dynamics import Dynamics
from mnemoscope.analysis.fixed_points import FixedPoints
from mnemoscope.analysis.portraits.families import Family
from mnemoscope.analysis.search import find_fixed_points
from mnemoscope.analysis.solvers import Newton
from mnemoscope.shapes import Float

TRUST = 0.5
"""A step is believed if the point lies no further from the tangent's prediction than this share of what it moved, and
if the tangent there leads back as well. A step to another branch passes one of both by chance, hardly ever both."""
STILL = 1e-6
"""Differences below this (rms, relative to states larger than 1) are none."""
REACH = 0.5
"""The longest step of the state, relative to its size, where numbers below 1 (rms) count as 1."""
SHRINK = 0.45
"""Of a step that was not believed. No half: a bifurcation may well lie half-way between two round numbers, and there
the Jacobian is singular."""
LEAST = 0.5
"""The least step, in units of the tolerance. Where two points meet as the root of the distance d in the parameter, a
step of up to 0.68 d is believed: one of half the tolerance that is not shows that d is below the tolerance."""
REMEMBERED = 12
"""Systems that are kept for the next use."""
MOST_STEPS = 1000
"""Between two snapshots."""
CHORDS = 6
"""Simplified Newton steps with the factors of the old Jacobian, before a new one is formed."""


@dataclass(frozen=True)
class Corrector(Newton):
    """Newton's method from a prediction: it need not look far, and what it does not find needs no other solver."""

    max_steps: int = 12

    @property
    def settle(self) -> Any:
        return None


@dataclass(frozen=True, eq=False)
class Place:
    """A fixed point at one parameter, with the factors of its residual's Jacobian."""

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
    """Whether it was given up after `MOST_STEPS`."""

    @property
    def end(self) -> Place:
        return self.passed[-1]


class Tracer:
    """Follows points of a family; remembers the last few systems, since making one may take long."""

    def __init__(self, family: Family, tolerance: float) -> None:
        self.family = family
        self.tolerance = tolerance
        self._systems: dict[float, Dynamics] = {}

    def system(self, at: float) -> Dynamics:
        if at not in self._systems:
            made = self.family(at)
            if not isinstance(made, Dynamics):
                raise TypeError(
                    f"The family must return a Dynamics at every parameter, but returned a {type(made).__name__} at "
                    f"{at:g}; between(cells, at) and along_inputs(cell, inputs) make such families."
                )
            sizes = {one.size for one in self._systems.values()}
            if sizes - {made.size}:
                raise ValueError(
                    f"All systems of a family must have states of one size, but at {at:g} it is {made.size} and "
                    f"elsewhere {sizes.pop()}."
                )
            while len(self._systems) >= REMEMBERED:
                self._systems.pop(next(iter(self._systems)))
            self._systems[at] = made
        return self._systems[at]

    def place(self, at: float, found: FixedPoints, point: int, known: tuple[float, int] | None = None) -> Place:
        """A found point, with its Jacobian factorised: one LU."""
        jacobian = found.jacobians[point]
        G = jacobian.clone()
        if found.continuous:
            G /= found.rate
        else:
            G.diagonal().sub_(1)
        LU, pivots, failed = torch.linalg.lu_factor_ex(G)
        size = len(G)
        swaps = int((pivots != torch.arange(1, size + 1)).sum())
        negative = int((LU.diagonal() < 0).sum()) + swaps + size
        regular = int(failed) == 0 and (found.regular is None or bool(found.regular[point]))
        index = (1 - 2 * (negative % 2)) if regular else 0
        told = (at, index) if index or known is None else known
        return Place(at, found.states[point], index, float(found.q[point]), (LU, pivots), jacobian, told)

    def predict(self, here: Place, to: float) -> tuple[Tensor, Tensor]:
        """The tangent's prediction, and the same improved by simplified Newton steps with the factors at hand.

        With the residual r, one such step from the old state x is `x - r_x^-1 r(x, to)`: the tangent
        `dx = -r_x^-1 r_p dp` with the difference of residuals in place of the derivative.
        """
        there = self.system(to)
        with torch.no_grad():
            x = here.state
            f = there.residual(x[None])[0]
            tangent = x if here.index == 0 else self._shifted(there, here, x, f)
            better, f = tangent, there.residual(tangent[None])[0]
            for _ in range(CHORDS if here.index else 0):
                trial = self._shifted(there, here, better, f)
                f_trial = there.residual(trial[None])[0]
                if not f_trial.norm() < 0.5 * f.norm():
                    break
                better, f = trial, f_trial
        return tangent, better

    def step(self, here: Place, to: float) -> Place | None:
        """The point at another parameter, or None where it is not found or not believed to be the same."""
        tangent, start = self.predict(here, to)
        if not self.moderate(here, tangent):
            return None
        found = find_fixed_points(self.system(to), start[None], solver=Corrector())
        if len(found) == 0:
            return None
        new = self.place(to, found, 0, here.known)
        return new if self.believed(here, tangent, new) else None

    def moderate(self, here: Place, tangent: Tensor) -> bool:
        """Whether the prediction is not too far away to be of any use."""
        moved = (tangent - here.state).norm()
        return bool(torch.isfinite(moved)) and float(moved) <= REACH * float(magnitude(here.state[None]))

    def believed(self, here: Place, tangent: Tensor, new: Place) -> bool:
        """Whether the new place is the old one moved on: tangents lead from each to the other."""
        moved = float((tangent - here.state).norm())
        size = float(magnitude(here.state[None]))
        allowed = max(TRUST * moved, STILL * size)
        if here.index == 0:  # it has no tangent
            allowed = 1e3 * STILL * size
        if float((new.state - tangent).norm()) > allowed:
            return False
        if new.index == 0:
            return True
        old = self.system(here.at)
        with torch.no_grad():
            back = self._shifted(old, new, new.state, old.residual(new.state[None])[0])
        return float((back - here.state).norm()) <= allowed

    def advance(self, start: Place, to: float) -> Way:
        """Follow a point to another parameter, in either direction.

        A step is shortened until it is believed and the index is kept. At steps as short as the tolerance, the index
        may change: an eigenvalue crosses +1 there. Where even such a step fails, the point is lost.
        """
        here, direction = start, 1.0 if to >= start.at else -1.0
        step = abs(to - start.at) if start.index else self.tolerance
        passed, crossings, failed = [start], [], False
        for _ in range(MOST_STEPS):
            if here.at == to:
                return Way(tuple(passed), tuple(crossings), True)
            left = abs(to - here.at)
            last = step >= left * (1 - 1e-9)
            target = to if last else here.at + direction * step
            new = self.step(here, target)
            short = min(step, left) <= LEAST * self.tolerance
            if new is not None and new.index == 0 and not last:
                new = None  # by chance at a bifurcation: step over it
            changed = new is not None and new.index != 0 and here.known[1] != 0 and new.index != here.known[1]
            if new is not None and (not changed or short):
                if changed:
                    before = here if here.index else replace(here, at=here.known[0])
                    crossings.append(Crossing(before, new))
                passed.append(new)
                here, step, failed = new, step * (1 if failed else 2), False
            elif short:
                over = None if last else self._over(here, direction, to)
                if over is None:
                    beyond = min(self.tolerance, left)
                    return Way(tuple(passed), tuple(crossings), False, here.at + direction * beyond)
                passed.append(over)
                if over.index != here.known[1] and here.known[1] != 0:
                    crossings.append(Crossing(here, over))
                here, step = over, self.tolerance
            elif new is None and (leaps := self._leaps(here, target))[0]:
                passed += leaps[0]
                here, step, failed = passed[-1], max(leaps[1], 0.999 * LEAST * self.tolerance), True
            else:
                step, failed = max(SHRINK * min(step, left), 0.999 * LEAST * self.tolerance), True
        return Way(tuple(passed), tuple(crossings), False, here.at + direction * step, stuck=True)

    def _leaps(self, here: Place, target: float) -> tuple[list[Place], float]:
        """Places on the way to a fold, as far as one is near: each leap leaves a tenth of the distance.

        Along the weakest direction v, the residual is `s t + c t^2 + b dp`, whose two roots t meet at
        `dp = s^2 / (4 b c)`; where to look, and whom to believe, is told by the nearer root. The prongs of a pitchfork
        look like a fold at a third of their distance from it: there a leap changes little, and steps get on faster.
        Returned beside the places is the step that is worth trying next.
        """
        leaps: list[Place] = []
        before = float("inf")
        while True:
            fold, c, b, s, v = self._fold(here, target)
            if abs(fold) > 0.5 * before:
                return leaps, 1.8 * abs(fold)
            before = abs(fold)
            if not 0 < fold / (target - here.at) < 1 or abs(fold) < LEAST * self.tolerance or here.index == 0:
                return leaps, 0.6 * abs(fold)
            dp = fold - 0.9 * LEAST * self.tolerance * (1 if fold > 0 else -1)
            dp = dp if abs(dp) < 0.9 * abs(fold) else 0.9 * fold
            root = (s * s - 4 * b * c * dp) ** 0.5
            guess = here.state + (-2 * b * dp / (s + root)) * v
            there = self.system(here.at + dp)
            found = find_fixed_points(there, there.clamp(guess[None]), solver=Corrector())
            if not len(found) or not self.moderate(here, guess):
                return leaps, 0.6 * abs(fold)
            new = self.place(here.at + dp, found, 0, here.known)
            moved = float((guess - here.state).norm())
            if new.index != here.index or float((new.state - guess).norm()) > TRUST * moved:
                return leaps, 0.6 * abs(fold)
            leaps.append(new)
            here = new

    def _fold(self, here: Place, target: float) -> tuple[float, float, float, float, Tensor]:
        """Where a fold would be, as a difference in the parameter, by the quadratic along the weakest direction."""
        w, v, s = weakest(here)
        system, beside = self.system(here.at), self.system(target)
        with torch.no_grad():
            small = 1e-4 * float(magnitude(here.state[None]))
            x = here.state[None]
            f = w @ system.residual(x)[0]
            sides = system.residual(torch.cat([x + small * v, x - small * v])) @ w
            c = float(sides.sum() - 2 * f) / (2 * small**2)
            b = float(w @ beside.residual(x)[0] - f) / (target - here.at)
        return (s * s / (4 * b * c) if b * c else float("inf")), c, b, s, v

    def _over(self, here: Place, direction: float, to: float) -> Place | None:
        """A step over a singular place, a little longer than the tolerance; None where that fails as well."""
        target = here.at + direction * 1.7 * self.tolerance
        if direction * (to - target) < 0:
            return None
        new = self.step(here, target)
        return None if new is None or new.index == 0 else new

    def _shifted(self, system: Dynamics, place: Place, x: Tensor, f: Tensor) -> Tensor:
        """`x - r_x^-1 f` with the factors of a place, inside the box of a system."""
        shift = torch.linalg.lu_solve(*place.factors, f[:, None])[:, 0]
        return system.clamp((x - shift)[None])[0]


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
