"""Classification of starts that come to rest: stable points, continuous attractors, slow manifolds."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.lenses.attractors.classification import AT_REST, NEAR, Classification, sorted_eigenvalues
from mnemoscope.lenses.attractors.manifolds import connected_groups
from mnemoscope.lenses.attractors.result import Kind
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.outcomes import Status
from mnemoscope.lenses.fixed_points.result import MARGIN, FixedPoints

SLOW = 1e-3
"""A step shorter than this share of the typical one is slow."""
SEVERAL = 3
"""Least number of connected marginal points that make a continuous attractor; one or two may be anything."""


def classify_equilibria(classification: Classification) -> None:
    """Classify starts that come to rest by the eigenvalues of the fixed point that Newton's method finds from there."""
    trajectories, extent = classification.trajectories, classification.trajectories.extent
    decelerating = trajectories.last_step <= 0.3 * trajectories.entry_step
    decelerating |= trajectories.last_step <= 10 * SLOW * trajectories.speed
    rows = [row for row in classification.remaining if decelerating[row]]
    if not rows:
        return
    chosen, which = _distinct(trajectories.states[rows], AT_REST * extent)
    fp = find_fixed_points(classification.system, trajectories.states[rows][chosen], seed=classification.seed)
    assert fp.starts is not None
    stable: dict[int, list[int]] = {}
    marginal: dict[int, list[int]] = {}
    unstable: list[int] = []
    eigenvalues: dict[int, Tensor] = {}
    for row, group in zip(rows, which, strict=True):
        if fp.starts.status[group] != Status.FIXED:
            continue
        point = int(fp.starts.point[group])
        state = fp.states[point].to(trajectories.states)
        now = float((trajectories.states[row] - state).norm())
        before = float((trajectories.entry[row] - state).norm())
        if now > NEAR * extent or (now > AT_REST * extent and now > 0.9 * before):
            continue
        if point not in eigenvalues:
            eigenvalues[point] = sorted_eigenvalues(fp.jacobians[point])
        largest = float(eigenvalues[point][0].abs().log())
        if largest < -MARGIN:
            stable.setdefault(point, []).append(row)
        elif now <= AT_REST * extent and largest <= MARGIN:
            marginal.setdefault(point, []).append(row)
        elif now <= AT_REST * extent and float(trajectories.last_step[row]) <= AT_REST * trajectories.speed:
            unstable.append(row)
    for point, starts in stable.items():
        _add_point(classification, fp, point, starts, eigenvalues[point])
    _add_marginal(classification, fp, marginal, eigenvalues)
    reason = "it rests at an unstable fixed point, and any perturbation would move it away"
    classification.mark_undecided(unstable, reason)


def classify_slow(classification: Classification) -> None:
    """Classify starts that still move, but far more slowly than at first."""
    trajectories = classification.trajectories
    directed = trajectories.straight | (trajectories.length <= AT_REST * trajectories.extent)
    slow = (trajectories.last_step <= SLOW * trajectories.speed) & directed
    rows = [row for row in classification.remaining if slow[row]]
    faster = [row for row in rows if float(trajectories.last_step[row]) > 1.05 * float(trajectories.entry_step[row])]
    classification.mark_undecided(faster, "it is speeding up after a slow passage, and has not arrived")
    classification.add(Kind.SLOW, [row for row in rows if row not in faster])


def _add_point(
    classification: Classification, fp: FixedPoints, point: int, rows: list[int], eigenvalues: Tensor, note: str = ""
) -> None:
    state = fp.states[point].to(classification.trajectories.states)
    growth = eigenvalues.abs().log() / (classification.dt or 1.0)
    classification.add(Kind.POINT, rows, state, growth, dimension=0.0, note=note)


def _add_marginal(
    classification: Classification, fp: FixedPoints, starts_of: dict[int, list[int]], eigenvalues: dict[int, Tensor]
) -> None:
    """Add each group of connected marginal points as a continuous attractor, and the other points alone."""
    trajectories = classification.trajectories
    states = fp.states[list(starts_of)].to(trajectories.states)
    points, manifolds = list(starts_of), []
    groups, all_tested = [[member] for member in range(len(points))], True
    if len(points) >= SEVERAL:
        groups, all_tested = connected_groups(classification.system, states, classification.steps)
    several = [group for group in groups if len(group) >= SEVERAL]
    separate = "separate from the others, as no rest points were found between the nearest states of both"
    separate += "" if all_tested else ", though not every pair was compared"
    alone = "marginal: the linearisation does not show that it attracts"
    for group in groups:
        members = [points[member] for member in group]
        if len(group) < SEVERAL:
            for point in members:
                _add_point(classification, fp, point, starts_of[point], eigenvalues[point], alone)
            continue
        growth = torch.stack([eigenvalues[point].abs().log()[: classification.count] for point in members])
        classification.add(
            Kind.CONTINUOUS,
            sorted(row for point in members for row in starts_of[point]),
            growth=growth.mean(0) / (classification.dt or 1.0),
            dimension=float((growth.abs() <= MARGIN).sum(1).double().median()),
            note=separate if len(several) > 1 else "",
        )
        manifolds.append((classification.found[-1], states[group]))
    still = [
        row for row in classification.remaining if float(trajectories.last_step[row]) <= AT_REST * trajectories.speed
    ]
    for row in still if manifolds else []:  # states at rest that Newton's method did not refine
        gaps = [float((members - trajectories.states[row]).norm(dim=1).min()) for _, members in manifolds]
        if min(gaps) <= trajectories.extent:
            classification.assign(manifolds[gaps.index(min(gaps))][0], [row])


def _distinct(states: Tensor, distance: float) -> tuple[list[int], list[int]]:
    """Return rows that represent all states within `distance`, and the representative of each state."""
    chosen: list[int] = []
    which = []
    for row in range(len(states)):
        gaps = (states[chosen] - states[row]).norm(dim=1) if chosen else states.new_zeros(0)
        if len(gaps) and float(gaps.min()) <= distance:
            which.append(int(gaps.argmin()))
        else:
            which.append(len(chosen))
            chosen.append(row)
    return chosen, which
