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
    for row in list(classification.remaining):
        k = int(periods[row])
        if not k or _assigned(classification, row, trajectories.states[row]):
            continue
        located = _located(classification, row, k)
        if located is not None:
            _add_cycle(classification, row, k, *located)


def _located(classification: Classification, row: int, k: int) -> tuple[Tensor, Tensor] | None:
    """Return a state of the cycle that a start approaches or follows, and the growth of its modes per period."""
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


def _add_cycle(classification: Classification, row: int, k: int, state: Tensor, growth: Tensor) -> None:
    """Add the cycle of a start unless it is known; all cycles of one period that do not attract form one entry."""
    attracts = float(growth[0]) < -MARGIN
    if attracts and _assigned(classification, row, state):
        return
    orbit = _orbit(classification.system, state, k)
    for cycle in classification.of_kind(Kind.CYCLE):
        if not attracts and cycle.note == NEUTRAL and cycle.period == len(orbit):
            classification.assign(cycle, [row])
            return
    properties = {"orbit": orbit} if attracts else {"note": NEUTRAL}
    classification.add(Kind.CYCLE, [row], state, growth / k, dimension=0.0, period=float(len(orbit)), **properties)


def _assigned(classification: Classification, row: int, state: Float[Tensor, " size"]) -> bool:
    """Assign a start to the known cycle that its state lies on; return whether there is one."""
    distance = AT_REST * float(classification.trajectories.spread[row])
    for cycle in classification.of_kind(Kind.CYCLE):
        if cycle.orbit is not None and float((cycle.orbit - state).norm(dim=1).min()) <= distance:
            classification.assign(cycle, [row])
            return True
    return False


def _orbit(system: Dynamics, state: Float[Tensor, " size"], k: int) -> Float[Tensor, "period size"]:
    """Return the states of the cycle through a state that recurs after k steps, up to its least period."""
    states = [state[None]]
    for _ in range(k - 1):
        states.append(system(states[-1]))
    orbit = torch.cat(states)
    away = (orbit - orbit[0]).norm(dim=1)
    width = float((orbit - orbit.mean(0)).norm(dim=1).max())
    return orbit[: next((m for m in range(1, k) if k % m == 0 and float(away[m]) <= AT_REST * width), k)]
