"""Starts whose states come again: on which stable cycle of a map."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.attractors.composed import iterated
from mnemoscope.lenses.attractors.judgement import AT_REST, NEAR, Judgement, eigenvalues
from mnemoscope.lenses.attractors.verdict import Kind
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.result import MARGIN

EXACT = 1e-9
"""A state that comes again to this share of the spread is on a cycle already, even if Newton's method leads away."""
MANY = "one of many: a push does not fade"


def judge_cycles(judgement: Judgement) -> None:
    """Starts whose states come again, on a stable cycle nearby.

    Newton's method finds where a start will be, so that cycles are told apart however near they lie.
    """
    seen = judgement.seen
    repeats = seen.repeats(2 * judgement.longest)
    orbits = _Orbits(judgement)
    for row in list(judgement.left):
        k = int(repeats[row])
        if not k or orbits.joins(row, seen.states[row]):
            continue
        located = _located(judgement, row, k)
        if located is None:
            continue
        state, growth = located
        if float(growth[0]) < -MARGIN:
            if not orbits.joins(row, state):
                orbits.take(row, state, k, growth)
        else:
            orbits.join_many(row, state, k, growth)


def _located(judgement: Judgement, row: int, k: int) -> tuple[Tensor, Tensor] | None:
    """The state of a cycle that a start comes to, and the growth of each mode once round; None if there is none that
    attracts or is kept to exactly.
    """
    seen = judgement.seen
    last, spread = seen.states[row : row + 1], float(seen.spread[row])
    fold = iterated(judgement.system, k)
    exact = float(fold.residual(last).norm()) <= EXACT * spread
    fp = find_fixed_points(fold, last, seed=judgement.seed)
    if len(fp) and float((fp.states[0].to(last) - last[0]).norm()) <= NEAR * spread:
        state, J = fp.states[0].to(last), fp.jacobians[0]
    elif exact:
        state, J = last[0], fold.jacobian(last)[0]
    else:
        return None
    growth = eigenvalues(J).abs().log()
    attracts = float(growth[0]) < -MARGIN or (exact and float(growth[0]) <= MARGIN)
    return (state, growth) if attracts else None


class _Orbits:
    """The cycles found so far, with all their states."""

    def __init__(self, judgement: Judgement) -> None:
        self.judgement = judgement
        self.known: list[Float[Tensor, "period size"]] = []

    def joins(self, row: int, state: Float[Tensor, " size"]) -> bool:
        """Whether a state is on a known cycle, to the precision at which states are at rest."""
        cycles = [one for one in self.judgement.of(Kind.CYCLE) if one.note != MANY]
        for one, orbit in zip(cycles, self.known, strict=True):
            if float((orbit - state).norm(dim=1).min()) <= AT_REST * float(self.judgement.seen.spread[row]):
                self.judgement.join(one, [row])
                return True
        return False

    def take(self, row: int, state: Tensor, k: int, growth: Tensor, note: str = "") -> None:
        orbit = _least(_orbit(self.judgement.system, state, k))
        own = (growth / k)[: self.judgement.count].tolist()
        known = {"dimension": 0.0, "exponents": [own], "errors": [[0.0] * len(own)], "note": note}
        self.judgement.take(Kind.CYCLE, [row], state, period=float(len(orbit)), **known)
        if note != MANY:
            self.known.append(orbit)

    def join_many(self, row: int, state: Tensor, k: int, growth: Tensor) -> None:
        """Cycles that do not attract each other stand together, by their period."""
        period = len(_least(_orbit(self.judgement.system, state, k)))
        many = [one for one in self.judgement.of(Kind.CYCLE) if one.note == MANY and one.period == period]
        if many:
            self.judgement.join(many[0], [row])
        else:
            self.take(row, state, k, growth, MANY)


def _orbit(system: Dynamics, state: Float[Tensor, " size"], number: int) -> Float[Tensor, "number size"]:
    orbit = [state[None]]
    for _ in range(number - 1):
        orbit.append(system(orbit[-1]))
    return torch.cat(orbit)


def _least(orbit: Float[Tensor, "number size"]) -> Float[Tensor, "period size"]:
    """The orbit once round."""
    k = len(orbit)
    away = (orbit - orbit[0]).norm(dim=1)
    width = float((orbit - orbit.mean(0)).norm(dim=1).max())
    return orbit[: next((m for m in range(1, k) if k % m == 0 and float(away[m]) <= AT_REST * width), k)]
