"""Predictor-corrector continuation of one fixed point in the parameter.

A step predicts along the tangent, corrects by Newton's method, and is shortened if the result is not trusted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.bifurcations.continuation_points import BranchSegment, ContinuationPoint, factorised_point
from mnemoscope.lenses.bifurcations.families import Family
from mnemoscope.lenses.bifurcations.folds import FoldModel, fold_model
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.catalogue import Catalogue
from mnemoscope.lenses.fixed_points.descent import NEARLY_CONVERGED, Tolerances
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude
from mnemoscope.lenses.fixed_points.newton import Newton
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.fixed_points.solvers import Solver

TRUST = 0.5
"""A step is trusted if the point lies no further from the tangent prediction than this share of the predicted move, and
if the tangent there leads back as well. A step to another branch passes one of both tests by chance, hardly ever
both."""
BEND = 0.5
"""A step is trusted if the slopes dx/dp at its ends differ by no more than this share of the larger one: on another
branch, or beyond two folds, they hardly agree. At a distance d from a fold, the slopes of a step of 0.75 d do."""
SMOOTH = 0.05
"""If the slopes differ more, the branch may still be a smooth bend: the end and a midpoint must then lie within this
share of the larger slope's move of the positions that both slopes imply."""
OFFSET = 0.01
"""Share of a step over which a slope is computed, inwards from its end: families may have kinks at the snapshots."""
STILL = 1e-6
"""Differences below this are negligible (rms, relative to states larger than 1)."""
REACH = 0.5
"""Longest step of the state, relative to its size (rms, at least 1)."""
SHRINK = 0.45
"""Factor for a step that is not trusted. It is not 1/2, as a bifurcation may well lie midway between two round numbers,
and the Jacobian is singular there."""
LEAST = 0.5
"""Least step in tolerances. Near a fold at distance d, a step of up to 0.68 d is trusted: if half a tolerance is not,
then d is below the tolerance."""
FINEST = 1 / 64
"""Shortest step as a share of the least step, for a branch that bends sharply without a fold ahead."""
AHEAD = 3.0
"""Tolerances within which a fold counts as near. Steps fail within one of them, but the estimate is rough."""
CACHED = 16
"""Systems and slopes that are kept for reuse."""
MAX_STEPS = 1000
"""Steps between two snapshots."""
CHORDS = 6
"""Chord (simplified Newton) steps with the factors of the old Jacobian, before a new one is formed."""


@dataclass(frozen=True)
class NewtonCorrector(Newton):
    """Newton's method from a prediction: it needs few steps, and no other solver takes over if it fails."""

    settle: ClassVar[Solver | None] = None

    max_steps: int = 12


class PredictorCorrector:
    """Continues points of a family; caches the last few systems, as building one may take long."""

    def __init__(self, family: Family, tolerance: float) -> None:
        self.family = family
        self.tolerance = tolerance
        self.least = LEAST * tolerance
        """The least step in the parameter."""
        self._systems: dict[float, Dynamics] = {}
        self._slopes: dict[tuple[ContinuationPoint, bool], tuple[float, Tensor]] = {}

    def system(self, at: float) -> Dynamics:
        """Return the system at a parameter."""
        if at not in self._systems:
            system = self.family(at)
            if not isinstance(system, Dynamics):
                raise TypeError(
                    f"The family must return a Dynamics at every parameter, but returned a {type(system).__name__} at "
                    f"{at:g}; interpolate_weights(cells, at) and interpolate_inputs(cell, inputs) make such families."
                )
            sizes = {other.size for other in self._systems.values()}
            if sizes - {system.size}:
                raise ValueError(
                    f"All systems of a family must have states of one size, but at {at:g} it is {system.size} and "
                    f"elsewhere {sizes.pop()}."
                )
            while len(self._systems) >= CACHED:
                self._systems.pop(next(iter(self._systems)))
            self._systems[at] = system
        return self._systems[at]

    def found_point(self, at: float, found: FixedPoints, number: int) -> ContinuationPoint:
        """Return a point that a search found at a parameter, moved from the CPU to the device of the system."""
        system, regular = self.system(at), found.regular is None or bool(found.regular[number])
        state, jacobian = found.states[number].to(system.device), found.jacobians[number].to(system.device)
        return factorised_point(system, at, state, float(found.q[number]), jacobian, regular)

    def corrected(
        self, at: float, guess: Float[Tensor, " size"], last_known: tuple[float, int] | None = None
    ) -> ContinuationPoint | None:
        """Return the point to which Newton's method converges from a guess, or None.

        This is a `Descent` from one start, with the same acceptance test but without the parts that many starts need.
        """
        system = self.system(at)
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
                return factorised_point(system, at, state, q_refined, jacobian, regular, last_known)
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

    def predict(self, here: ContinuationPoint, to: float) -> tuple[Tensor, Tensor]:
        """Return the tangent prediction, and its improvement by chord steps with the factors of the point."""
        there, x = self.system(to), here.state
        tangent = x if here.index == 0 else there.clamp((x + (to - here.at) * self._slope(here, to))[None])[0]
        improved, f = tangent, there.residual(tangent[None])[0]
        for _ in range(CHORDS if here.index else 0):
            chord = torch.linalg.lu_solve(*here.factors, f[:, None])[:, 0]
            trial = there.clamp((improved - chord)[None])[0]
            f_trial = there.residual(trial[None])[0]
            if not f_trial.norm() < 0.5 * f.norm():
                break
            improved, f = trial, f_trial
        return tangent, improved

    def step(self, here: ContinuationPoint, to: float) -> ContinuationPoint | None:
        """Return the point at another parameter, or None if it is not found or not trusted to be the same."""
        tangent, start = self.predict(here, to)
        if not self.within_reach(here, tangent):
            return None
        new = self.corrected(to, start, here.last_known)
        return new if new is not None and self.trusts(here, tangent, new) else None

    def within_reach(self, here: ContinuationPoint, guess: Tensor) -> bool:
        """Return whether a prediction is near enough to be useful."""
        moved = (guess - here.state).norm()
        return bool(torch.isfinite(moved)) and float(moved) <= REACH * float(magnitude(here.state[None]))

    def trusts(self, here: ContinuationPoint, tangent: Tensor, new: ContinuationPoint) -> bool:
        """Return whether the tangents at the old and the new point lead from each to the other, on a smooth branch."""
        moved = float((tangent - here.state).norm())
        size = float(magnitude(here.state[None]))
        allowed = max(TRUST * moved, STILL * size)
        if here.index == 0:  # it has no tangent
            allowed = 1e3 * STILL * size
        if float((new.state - tangent).norm()) > allowed:
            return False
        if new.index == 0:
            return True
        back = new.state + (here.at - new.at) * self._slope(new, here.at)
        return float((back - here.state).norm()) <= allowed and self._is_smooth(here, new)

    def _is_smooth(self, here: ContinuationPoint, new: ContinuationPoint) -> bool:
        """Return whether the slopes at both ends of a step belong to one smooth branch.

        The residuals of a step alone do not show it: the step may lead to another branch that crosses this one midway,
        or over a gap without any point.
        """
        if here.index == 0:  # the slope is unknown there; steps from such points are short
            return True
        width = new.at - here.at
        left, right = self._slope(here, new.at), self._slope(new, here.at)
        reach = abs(width) * max(float(left.norm()), float(right.norm()))
        moved = new.state - here.state
        if max(reach, float(moved.norm())) <= STILL * float(magnitude(here.state[None])):
            return True
        if abs(width) * float((left - right).norm()) <= BEND * reach:
            return True
        if float((moved - 0.5 * width * (left + right)).norm()) > SMOOTH * reach:
            return False
        midpoint = 0.5 * (here.state + new.state) + width / 8 * (left - right)  # of the cubic Hermite interpolant
        middle = self.corrected(here.at + 0.5 * width, midpoint)
        return middle is not None and float((middle.state - midpoint).norm()) <= SMOOTH * reach

    def advance(self, start: ContinuationPoint, to: float) -> BranchSegment:
        """Continue a point to another parameter, in either direction.

        A step is shortened until it is trusted and the index stays the same. In steps as short as the tolerance, the
        index may change: an eigenvalue crosses +1 there. If even such a step fails and a fold is near ahead, the point
        is lost. If no fold is near, the branch only bends, and shorter steps are tried first.
        """
        here, direction = start, 1.0 if to >= start.at else -1.0
        step = abs(to - start.at) if start.index else self.tolerance
        points, crossings, failed = [start], [], False
        for _ in range(MAX_STEPS):
            if here.at == to:
                return BranchSegment(tuple(points), tuple(crossings), True)
            left = abs(to - here.at)
            last = step >= left * (1 - 1e-9)
            target = to if last else here.at + direction * step
            new = self.step(here, target)
            short = min(step, left) <= self.least
            if new is not None and new.index == 0 and not last:
                new = None  # by chance at a bifurcation: step over it
            known = here.last_known[1]
            changed = new is not None and new.index != 0 and known != 0 and new.index != known
            if new is not None and (not changed or short):
                if changed:
                    before = here if here.index else replace(here, at=here.last_known[0])
                    crossings.append((before, new))
                points.append(new)
                here, step, failed = new, step * (1 if failed else 2), False
            elif short:
                beyond = None if last else self._step_over(here, direction, to)
                if beyond is not None:
                    points.append(beyond)
                    if beyond.index != known and known != 0:
                        crossings.append((here, beyond))
                    here, step = beyond, self.tolerance
                elif min(step, left) > FINEST * self.least and not self._fold_is_near(here, target):
                    step, failed = SHRINK * min(step, left), True
                else:
                    lost_at = here.at + direction * min(self.tolerance, left)
                    return BranchSegment(tuple(points), tuple(crossings), False, lost_at)
            elif new is None and (approach := self._approach_fold(here, target))[0]:
                points += approach[0]
                here, step, failed = points[-1], max(approach[1], 0.999 * self.least), True
            else:
                step, failed = max(SHRINK * min(step, left), 0.999 * self.least), True
        return BranchSegment(tuple(points), tuple(crossings), False, here.at + direction * step, stuck=True)

    def arrival(self, start: ContinuationPoint | None, to: float) -> ContinuationPoint | None:
        """Return the end of the continuation to another parameter, or None if it does not arrive or has no start."""
        segment = None if start is None else self.advance(start, to)
        return segment.end if segment is not None and segment.arrived else None

    def _approach_fold(self, here: ContinuationPoint, target: float) -> tuple[list[ContinuationPoint], float]:
        """Return points on the way to a near fold, each at a tenth of the last distance, and the step to try next.

        The nearer root of the quadratic model gives the guess, and decides whether the corrected point is trusted. The
        prongs of a pitchfork look like a fold at a third of their distance from it: there this approach gains little,
        and ordinary steps are faster.
        """
        points: list[ContinuationPoint] = []
        previous = float("inf")
        while True:
            model = self._fold_model(here, target)
            fold = model.distance
            if abs(fold) > 0.5 * previous:
                return points, 1.8 * abs(fold)
            previous = abs(fold)
            if not 0 < fold / (target - here.at) < 1 or abs(fold) < self.least or here.index == 0:
                return points, 0.6 * abs(fold)
            dp = fold - 0.9 * self.least * (1 if fold > 0 else -1)
            dp = dp if abs(dp) < 0.9 * abs(fold) else 0.9 * fold
            guess = here.state + model.displacement(dp)
            reachable = self.within_reach(here, guess)
            new = self.corrected(here.at + dp, guess, here.last_known) if reachable else None
            moved = float((guess - here.state).norm())
            trusted = new is not None and float((new.state - guess).norm()) <= TRUST * moved
            if new is None or new.index != here.index or not trusted:
                return points, 0.6 * abs(fold)
            points.append(new)
            here = new

    def _fold_model(self, here: ContinuationPoint, target: float) -> FoldModel:
        return fold_model(self.system(here.at), here, self.system(target), target)

    def _fold_is_near(self, here: ContinuationPoint, target: float) -> bool:
        """Return whether the quadratic model has its fold ahead, within a few tolerances."""
        if here.index == 0:
            return False
        fold = self._fold_model(here, target).distance
        return fold / (target - here.at) > 0 and abs(fold) <= AHEAD * self.tolerance

    def _step_over(self, here: ContinuationPoint, direction: float, to: float) -> ContinuationPoint | None:
        """Step over a singular point, by a little more than the tolerance; return None if that fails as well."""
        target = here.at + direction * 1.7 * self.tolerance
        if direction * (to - target) < 0:
            return None
        new = self.step(here, target)
        return None if new is None or new.index == 0 else new

    def _slope(self, point: ContinuationPoint, to: float) -> Tensor:
        """Return dx/dp = `-r_x^-1 r_p` at a point, with r_p from a difference towards another parameter."""
        cached = self._slopes.get((point, to > point.at))
        if cached is not None and cached[0] <= 10 * OFFSET * abs(to - point.at):
            return cached[1]
        offset = OFFSET * (to - point.at)
        x = point.state[None]
        change = self.system(point.at + offset).residual(x)[0] - self.system(point.at).residual(x)[0]
        slope = -torch.linalg.lu_solve(*point.factors, change[:, None])[:, 0] / offset
        while len(self._slopes) >= CACHED:
            self._slopes.pop(next(iter(self._slopes)))
        self._slopes[point, to > point.at] = abs(offset), slope
        return slope
