"""Classification of starts with recurring states: stable cycles of a map."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.attractors.classification import AT_REST, NEAR, Classification, sorted_eigenvalues
from mnemoscope.lenses.attractors.composition import iterated_map
from mnemoscope.lenses.attractors.result import Kind
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.result import MARGIN

EXACT = 1e-9
"""A state that recurs to this share of the spread is on a cycle already, even if Newton's method leads away."""
NEUTRAL = "one of many: a perturbation does not decay"
"""The note on cycles that lie in a continuum."""


def classify_cycles(classification: Classification) -> None:
    """Classify starts with recurring states that approach a stable cycle.

    Newton's method finds the limit of each start, so that cycles are separated however near they lie.
    """
    trajectories = classification.trajectories
    periods = trajectories.recurrence_periods(2 * classification.max_period)
    orbits = _KnownOrbits(classification)
    for row in list(classification.remaining):
        k = int(periods[row])
        if not k or orbits.assign(row, trajectories.states[row]):
            continue
        located = _located(classification, row, k)
        if located is None:
            continue
        state, growth = located
        if float(growth[0]) < -MARGIN:
            if not orbits.assign(row, state):
                orbits.add(row, state, k, growth)
        else:
            orbits.add_neutral(row, state, k, growth)


def _located(classification: Classification, row: int, k: int) -> tuple[Tensor, Tensor] | None:
    """Return a state of the cycle that a start approaches, and the growth of each mode over one period.

    Return None if no such cycle attracts, and the start does not follow one exactly.
    """
    trajectories = classification.trajectories
    last, spread = trajectories.states[row : row + 1], float(trajectories.spread[row])
    k_fold = iterated_map(classification.system, k)
    exact = float(k_fold.residual(last).norm()) <= EXACT * spread
    fp = find_fixed_points(k_fold, last, seed=classification.seed)
    if len(fp) and float((fp.states[0].to(last) - last[0]).norm()) <= NEAR * spread:
        state, J = fp.states[0].to(last), fp.jacobians[0]
    elif exact:
        state, J = last[0], k_fold.jacobian(last)[0]
    else:
        return None
    growth = sorted_eigenvalues(J).abs().log()
    attracts = float(growth[0]) < -MARGIN or (exact and float(growth[0]) <= MARGIN)
    return (state, growth) if attracts else None


class _KnownOrbits:
    """The known cycles, with all their states."""

    def __init__(self, classification: Classification) -> None:
        self.classification = classification
        self.orbits: list[Float[Tensor, "period size"]] = []

    def assign(self, row: int, state: Float[Tensor, " size"]) -> bool:
        """Assign a start to the known cycle that its state lies on; return whether there is one."""
        cycles = [cycle for cycle in self.classification.of_kind(Kind.CYCLE) if cycle.note != NEUTRAL]
        distance = AT_REST * float(self.classification.trajectories.spread[row])
        for cycle, orbit in zip(cycles, self.orbits, strict=True):
            if float((orbit - state).norm(dim=1).min()) <= distance:
                self.classification.assign(cycle, [row])
                return True
        return False

    def add(self, row: int, state: Tensor, k: int, growth: Tensor, note: str = "") -> None:
        """Add a new cycle."""
        orbit = _one_period(_orbit(self.classification.system, state, k))
        exponents = (growth / k)[: self.classification.count].tolist()
        properties = {"dimension": 0.0, "exponents": [exponents], "errors": [[0.0] * len(exponents)], "note": note}
        self.classification.add(Kind.CYCLE, [row], state, period=float(len(orbit)), **properties)
        if note != NEUTRAL:
            self.orbits.append(orbit)

    def add_neutral(self, row: int, state: Tensor, k: int, growth: Tensor) -> None:
        """Add a cycle that does not attract; all of one period form one entry."""
        period = len(_one_period(_orbit(self.classification.system, state, k)))
        cycles = self.classification.of_kind(Kind.CYCLE)
        same = [cycle for cycle in cycles if cycle.note == NEUTRAL and cycle.period == period]
        if same:
            self.classification.assign(same[0], [row])
        else:
            self.add(row, state, k, growth, NEUTRAL)


def _orbit(system: Dynamics, state: Float[Tensor, " size"], number: int) -> Float[Tensor, "number size"]:
    orbit = [state[None]]
    for _ in range(number - 1):
        orbit.append(system(orbit[-1]))
    return torch.cat(orbit)


def _one_period(orbit: Float[Tensor, "number size"]) -> Float[Tensor, "period size"]:
    """Return the orbit up to its least period."""
    k = len(orbit)
    away = (orbit - orbit[0]).norm(dim=1)
    width = float((orbit - orbit.mean(0)).norm(dim=1).max())
    return orbit[: next((m for m in range(1, k) if k % m == 0 and float(away[m]) <= AT_REST * width), k)]
