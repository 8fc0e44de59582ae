"""Continuation of one fixed point in the parameter: tangent, correction, and halving where a step cannot be trusted."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from mnemoscope.lenses.bifurcations.continuation_points import Crossing, Place, Way, corrected_place, found_place
from mnemoscope.lenses.bifurcations.families import Family
from mnemoscope.lenses.bifurcations.folds import distance, leaps
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude
from mnemoscope.lenses.fixed_points.result import FixedPoints

TRUST = 0.5
"""A step is believed if the point lies no further from the tangent's prediction than this share of what it moved, and
if the tangent there leads back as well. A step to another branch passes one of both by chance, hardly ever both."""
BEND = 0.5
"""A step is believed if the slopes dx/dp at its ends differ by no more than this share of the larger one: on another
branch, or beyond two folds, they hardly agree. Up to a fold at distance d, those of a step of 0.75 d do."""
SMOOTH = 0.05
"""Where they differ more, the branch may still be a smooth bend: then the end, and a point half-way, must lie within
this share of the larger slope's move of where the slopes at both ends put them."""
BESIDE = 0.01
"""Of a step: the distance in the parameter over which a slope is taken, on the inner side of its end. Families may have
kinks at the snapshots."""
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
FINEST = 1 / 64
"""Of the least step: how short steps become where a branch bends sharply and no fold is ahead."""
AHEAD = 3.0
"""Tolerances within which a fold is near. Steps fail at less than one of them, but the estimate is rough."""
REMEMBERED = 16
"""Systems, and slopes, that are kept for the next use."""
MOST_STEPS = 1000
"""Between two snapshots."""
CHORDS = 6
"""Simplified Newton steps with the factors of the old Jacobian, before a new one is formed."""


class Tracer:
    """Follows points of a family; remembers the last few systems, since making one may take long."""

    def __init__(self, family: Family, tolerance: float) -> None:
        self.family = family
        self.tolerance = tolerance
        self.least = LEAST * tolerance
        """The least step."""
        self._systems: dict[float, Dynamics] = {}
        self._slopes: dict[tuple[Place, bool], tuple[float, Tensor]] = {}

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

    def place(self, at: float, found: FixedPoints, point: int) -> Place:
        """A point that a search found at a parameter."""
        return found_place(at, found, point, self.system(at).device)

    def corrected(self, at: float, guess: Tensor, known: tuple[float, int] | None = None) -> Place | None:
        """The point that a guess leads to."""
        with torch.no_grad():
            return corrected_place(self.system(at), at, guess, known)

    def predict(self, here: Place, to: float) -> tuple[Tensor, Tensor]:
        """The tangent's prediction, and the same improved by simplified Newton steps with the factors at hand."""
        there = self.system(to)
        with torch.no_grad():
            x = here.state
            tangent = x if here.index == 0 else there.clamp((x + (to - here.at) * self._slope(here, to))[None])[0]
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
        new = self.corrected(to, start, here.known)
        return new if new is not None and self.believed(here, tangent, new) and self.smooth(here, new) else None

    def moderate(self, here: Place, tangent: Tensor) -> bool:
        """Whether the prediction is not too far away to be of any use."""
        moved = (tangent - here.state).norm()
        return bool(torch.isfinite(moved)) and float(moved) <= REACH * float(magnitude(here.state[None]))

    def as_foretold(self, here: Place, guess: Tensor, new: Place) -> bool:
        """Whether a place lies no further from a guess than the trusted share of what the guess moved."""
        return float((new.state - guess).norm()) <= TRUST * float((guess - here.state).norm())

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
        back = new.state + (here.at - new.at) * self._slope(new, here.at)
        return float((back - here.state).norm()) <= allowed

    def smooth(self, here: Place, new: Place) -> bool:
        """Whether the slopes at both ends of a step are those of one smooth branch.

        The residuals of a step alone do not tell: they may lead from one branch to another that it crosses half-way, or
        over a gap in which there is no point at all.
        """
        if here.index == 0 or new.index == 0:  # no slope can be told there; steps to and from such places are short
            return True
        wide = new.at - here.at
        left, right = self._slope(here, new.at), self._slope(new, here.at)
        reach = abs(wide) * max(float(left.norm()), float(right.norm()))
        moved = new.state - here.state
        if max(reach, float(moved.norm())) <= STILL * float(magnitude(here.state[None])):
            return True
        if abs(wide) * float((left - right).norm()) <= BEND * reach:
            return True
        if float((moved - 0.5 * wide * (left + right)).norm()) > SMOOTH * reach:
            return False
        half = 0.5 * (here.state + new.state) + wide / 8 * (left - right)  # of the cubic with these ends and slopes
        middle = self.corrected(here.at + 0.5 * wide, half)
        return middle is not None and float((middle.state - half).norm()) <= SMOOTH * reach

    def _slope(self, place: Place, to: float) -> Tensor:
        """dx/dp at a place, by the residual r a little way towards another parameter: `-r_x^-1 r_p`."""
        kept = self._slopes.get((place, to > place.at))
        if kept is not None and kept[0] <= 10 * BESIDE * abs(to - place.at):
            return kept[1]
        beside = BESIDE * (to - place.at)
        with torch.no_grad():
            x = place.state[None]
            change = self.system(place.at + beside).residual(x)[0] - self.system(place.at).residual(x)[0]
            slope = -torch.linalg.lu_solve(*place.factors, change[:, None])[:, 0] / beside
        while len(self._slopes) >= REMEMBERED:
            self._slopes.pop(next(iter(self._slopes)))
        self._slopes[place, to > place.at] = abs(beside), slope
        return slope

    def advance(self, start: Place, to: float) -> Way:
        """Follow a point to another parameter, in either direction.

        A step is shortened until it is believed and the index is kept. At steps as short as the tolerance, the index
        may change: an eigenvalue crosses +1 there. Where even such a step fails and a fold is near ahead, the point is
        lost; where none is, the branch only bends, and shorter steps are tried first.
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
            short = min(step, left) <= self.least
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
                if over is not None:
                    passed.append(over)
                    if over.index != here.known[1] and here.known[1] != 0:
                        crossings.append(Crossing(here, over))
                    here, step = over, self.tolerance
                elif min(step, left) > FINEST * self.least and not self._fold_ahead(here, target):
                    step, failed = SHRINK * min(step, left), True
                else:
                    beyond = min(self.tolerance, left)
                    return Way(tuple(passed), tuple(crossings), False, here.at + direction * beyond)
            elif new is None and (on_the_way := leaps(self, here, target))[0]:
                passed += on_the_way[0]
                here, step, failed = passed[-1], max(on_the_way[1], 0.999 * self.least), True
            else:
                step, failed = max(SHRINK * min(step, left), 0.999 * self.least), True
        return Way(tuple(passed), tuple(crossings), False, here.at + direction * step, stuck=True)

    def _over(self, here: Place, direction: float, to: float) -> Place | None:
        """A step over a singular place, a little longer than the tolerance; None where that fails as well."""
        target = here.at + direction * 1.7 * self.tolerance
        if direction * (to - target) < 0:
            return None
        new = self.step(here, target)
        return None if new is None or new.index == 0 else new

    def _fold_ahead(self, here: Place, target: float) -> bool:
        """Whether the quadratic along the weakest direction has its fold ahead, and near."""
        if here.index == 0:
            return False
        fold = distance(self, here, target)[0]
        return fold / (target - here.at) > 0 and abs(fold) <= AHEAD * self.tolerance

    def _shifted(self, system: Dynamics, place: Place, x: Tensor, f: Tensor) -> Tensor:
        """`x - r_x^-1 f` with the factors of a place, inside the box of a system."""
        shift = torch.linalg.lu_solve(*place.factors, f[:, None])[:, 0]
        return system.clamp((x - shift)[None])[0]
