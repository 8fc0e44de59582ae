"""Starts that come to rest: at stable points, at marginal ones of continuous attractors, or creeping on."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.lenses.attractors.continua import connected
from mnemoscope.lenses.attractors.judgement import AT_REST, NEAR, Judgement, eigenvalues
from mnemoscope.lenses.attractors.verdict import Kind
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.result import MARGIN, FixedPoints, Status

CREEPING = 1e-3
"""A step shorter than this share of the typical one is a creep."""
SEVERAL = 3
"""Marginal points with rests between them that make a continuous attractor; one or two may be anything."""


def judge_points(judgement: Judgement) -> None:
    """Starts that come to rest, by the eigenvalues of the fixed point that Newton's method finds from there."""
    seen, extent = judgement.seen, judgement.seen.extent
    slows = (seen.last_step <= 0.3 * seen.step_before) | (seen.last_step <= 10 * CREEPING * seen.speed)
    rows = [row for row in judgement.left if slows[row]]
    if not rows:
        return
    chosen, which = _distinct(seen.states[rows], AT_REST * extent)
    fp = find_fixed_points(judgement.system, seen.states[rows][chosen], seed=judgement.seed)
    assert fp.starts is not None
    resting: dict[int, list[int]] = {}
    marginal: dict[int, list[int]] = {}
    unstable: list[int] = []
    values: dict[int, Tensor] = {}
    for row, group in zip(rows, which, strict=True):
        if fp.starts.status[group] != Status.FIXED:
            continue
        point = int(fp.starts.point[group])
        here = fp.states[point].to(seen.states)
        now, before = float((seen.states[row] - here).norm()), float((seen.before[row] - here).norm())
        if now > NEAR * extent or (now > AT_REST * extent and now > 0.9 * before):
            continue
        if point not in values:
            values[point] = eigenvalues(fp.jacobians[point])
        largest = float(values[point][0].abs().log())
        if largest < -MARGIN:
            resting.setdefault(point, []).append(row)
        elif now <= AT_REST * extent and largest <= MARGIN:
            marginal.setdefault(point, []).append(row)
        elif now <= AT_REST * extent and float(seen.last_step[row]) <= AT_REST * seen.speed:
            unstable.append(row)
    for point, own in resting.items():
        _take_point(judgement, fp, point, own, values[point])
    if marginal:
        _take_marginal(judgement, fp, marginal, values)
    if unstable:
        judgement.undecided(unstable, "it rests at a fixed point that is not stable, and any push would move it on")


def judge_creeping(judgement: Judgement) -> None:
    """Starts that move on, but far more slowly than systems start."""
    seen = judgement.seen
    slow = (seen.last_step <= CREEPING * seen.speed) & (seen.straight | (seen.length <= AT_REST * seen.extent))
    rows = [row for row in judgement.left if slow[row]]
    faster = [row for row in rows if float(seen.last_step[row]) > 1.05 * float(seen.step_before[row])]
    if faster:
        judgement.undecided(faster, "it is speeding up after a slow passage, and has not arrived")
    judgement.take(Kind.SLOW, [row for row in rows if row not in faster])


def _take_point(
    judgement: Judgement, fp: FixedPoints, point: int, rows: list[int], values: Tensor, note: str = ""
) -> None:
    growth = (values.abs().log() / (judgement.dt or 1.0))[: judgement.count].tolist()
    state = fp.states[point].to(judgement.seen.states)
    errors = [[0.0] * len(growth)]
    judgement.take(Kind.POINT, rows, state, dimension=0.0, exponents=[growth], errors=errors, note=note)


def _take_marginal(
    judgement: Judgement, fp: FixedPoints, rests: dict[int, list[int]], values: dict[int, Tensor]
) -> None:
    """Marginal points with rests between them are a continuous attractor, one for each group of them."""
    seen = judgement.seen
    spots = fp.states[list(rests)].to(seen.states)
    points, manifolds = list(rests), []
    groups, all_tried = [[member] for member in range(len(points))], True
    if len(points) >= SEVERAL:
        groups, all_tried = connected(judgement.system, spots, judgement.steps)
    several = [group for group in groups if len(group) >= SEVERAL]
    apart = "told from the others as no rests were found between the nearest states of both"
    apart += "" if all_tried else ", where not every two were compared"
    alone = "marginal: the linearisation does not say that it attracts"
    for group in groups:
        own = [points[member] for member in group]
        if len(group) < SEVERAL:
            for point in own:
                _take_point(judgement, fp, point, rests[point], values[point], alone)
            continue
        growth = torch.stack([values[point].abs().log()[: judgement.count] for point in own])
        mean = (growth.mean(0) / (judgement.dt or 1.0)).tolist()
        judgement.take(
            Kind.CONTINUOUS,
            sorted(row for point in own for row in rests[point]),
            dimension=float((growth.abs() <= MARGIN).sum(1).double().median()),
            exponents=[mean],
            errors=[[0.0] * len(mean)],
            note=apart if len(several) > 1 else "",
        )
        manifolds.append((judgement.found[-1], spots[group]))
    still = [row for row in judgement.left if float(seen.last_step[row]) <= AT_REST * seen.speed]
    for row in still if manifolds else []:  # rests that Newton's method did not refine
        gaps = [float((own - seen.states[row]).norm(dim=1).min()) for _, own in manifolds]
        if min(gaps) <= seen.extent:
            judgement.join(manifolds[gaps.index(min(gaps))][0], [row])


def _distinct(states: Tensor, distance: float) -> tuple[list[int], list[int]]:
    """Rows that stand for all within `distance`, and which of them each state belongs to."""
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
