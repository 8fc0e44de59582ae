"""Detection of all bifurcations, including a search for the branches that an incomplete one lacks."""

from __future__ import annotations

import numpy as np
import torch

from mnemoscope.lenses.bifurcations.arclength import continue_by_arclength
from mnemoscope.lenses.bifurcations.branch_tracker import BranchTracker
from mnemoscope.lenses.bifurcations.branches import TrackedBranch, matching_state
from mnemoscope.lenses.bifurcations.continuation_points import ContinuationPoint
from mnemoscope.lenses.bifurcations.crossings import index_preserving_crossings
from mnemoscope.lenses.bifurcations.events import NEAR, Bifurcation, BranchEvent, Links, assemble_bifurcations
from mnemoscope.lenses.bifurcations.folds import partner_starts
from mnemoscope.lenses.bifurcations.grouping import group_bifurcations
from mnemoscope.lenses.bifurcations.predictor_corrector import NewtonCorrector
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude

ROUNDS = 4
"""Largest number of searches for missing branches."""
CANDIDATES = 3
"""Branches that are continued to a point to see whether they pass through it, nearest first."""
SLACK = 4.0
"""Tolerances within which the beginning of a branch counts as the continuation of another."""


def detect_bifurcations(tracker: BranchTracker) -> list[Bifurcation]:
    """Return all bifurcations, in the order of the parameter."""
    links: Links = []
    examined: set[tuple[str, int, float]] = set()
    for _ in range(ROUNDS):
        incomplete = [bifurcation for bifurcation in assemble_bifurcations(tracker, links) if not bifurcation.complete]
        events = [event for bifurcation in incomplete for event in bifurcation.events]
        events = [event for event in events if (event.kind, id(event.point), event.low) not in examined]
        examined |= {(event.kind, id(event.point), event.low) for event in events}
        branches = [tracker.branches[event.branch] for event in events]  # now, as numbers may change during the search
        progress = [_complete(tracker, event, branch, links) for event, branch in zip(events, branches, strict=True)]
        if not any(progress):
            break
    found = assemble_bifurcations(tracker, links)
    for number, branch in enumerate(tracker.branches):
        found += index_preserving_crossings(tracker, number, branch)
    return sorted(group_bifurcations(tracker, found), key=lambda bifurcation: bifurcation.events[0].low)


def _complete(tracker: BranchTracker, event: BranchEvent, branch: TrackedBranch, links: Links) -> bool:
    """Search what is missing at an end or crossing; return whether anything was found."""
    if not any(other is branch for other in tracker.branches):
        return False  # another branch has absorbed it meanwhile
    found = _search_nearby(tracker, event)
    if event.kind != "crossed":
        found = _search_passing_branch(tracker, event, branch) or found
        found = _search_past_end(tracker, event, branch, links) or found
    return found


def _search_passing_branch(tracker: BranchTracker, event: BranchEvent, branch: TrackedBranch) -> bool:
    """Search crossings of +1 on the nearest passing branch: if it crosses twice, its index at snapshots stays."""
    tolerance = tracker.continuation.tolerance
    low = max(event.low - tolerance, tracker.parameters[0])
    high = min(event.high + tolerance, tracker.parameters[-1])
    passing = [other for other in tracker.branches if other is not branch and other.covers(low) and other.covers(high)]
    size = float(magnitude(event.point.state[None]))
    apart = [float((other.interpolated(event.point.at) - event.point.state).norm()) / size for other in passing]
    if not passing or min(apart) > NEAR:
        return False
    nearest = passing[apart.index(min(apart))]
    if any(before.at <= high and after.at >= low for before, after in nearest.crossings):
        return False
    start = tracker.continuation.arrival(tracker.continuation_point(nearest.nearest(low)), low)
    segment = None if start is None else tracker.continuation.advance(start, high)
    if segment is None or not segment.arrived:
        return False
    nearest.crossings += tracker.crossings(segment)
    nearest.points += [tracker.branch_point(point) for point in segment.points] if segment.crossings else []
    return bool(segment.crossings)


def _search_nearby(tracker: BranchTracker, event: BranchEvent) -> bool:
    """Search points near a singular one that lie on no known branch, and track them."""
    new = False
    for branch_point in (event.point, event.after):
        point = None if branch_point is None else tracker.continuation_point(branch_point)
        if point is None or point.index == 0:
            continue
        system = tracker.continuation.system(point.at)
        found = find_fixed_points(system, partner_starts(system, point), solver=NewtonCorrector())
        for number in range(len(found)):
            other = tracker.continuation.found_point(point.at, found, number)
            near = (other.state - point.state).norm() <= NEAR * magnitude(point.state[None])
            if near and other.index and not torch.equal(other.state, point.state):
                new = _add_branch(tracker, other) is not None or new
    return new


def _search_past_end(tracker: BranchTracker, event: BranchEvent, branch: TrackedBranch, links: Links) -> bool:
    """Continue a branch by arclength past its end: to the partner of a fold, or beyond if it only bends."""
    direction = 1 if event.kind == "vanished" else -1
    end = branch.ends.get(direction)
    here = None if end is None or end.point is not event.point else tracker.continuation_point(event.point)
    if here is None:
        return False
    limits = tracker.parameters[0], tracker.parameters[-1]
    other = continue_by_arclength(tracker.continuation, here, direction, limits)
    if other is None:
        return False
    if other.at != here.at:
        absorbed = _extend_branch(tracker, branch, other, direction) if other.index == here.index else None
        if absorbed is not None:
            links[:] = [(branch if a is absorbed else a, branch if b is absorbed else b) for a, b in links]
        return absorbed is not None
    if other.index == here.index:
        return False  # through a pitchfork from prong to prong
    partner = _branch_through(tracker, other) or _add_branch(tracker, other)
    if partner is None or partner is branch:
        return False
    links.append((branch, partner))
    return True


def _branch_through(tracker: BranchTracker, point: ContinuationPoint) -> TrackedBranch | None:
    """Return the branch that passes through a point, if there is one."""
    slack = 2 * tracker.continuation.tolerance
    candidates = [branch for branch in tracker.branches if branch.covers(point.at, slack)]
    state = point.state.cpu()
    candidates.sort(key=lambda branch: float((branch.interpolated(point.at) - state).norm()))
    return next((branch for branch in candidates[:CANDIDATES] if _passes(tracker, branch, point)), None)


def _add_branch(tracker: BranchTracker, point: ContinuationPoint) -> TrackedBranch | None:
    """Continue a point found between snapshots in both directions; return None if it lies on a known branch."""
    if _branch_through(tracker, point) is not None:
        return None
    before, after = _neighbouring_snapshots(tracker, point.at)
    branch = TrackedBranch([tracker.branch_point(point, count=True)])
    if tracker.continue_branch(branch, point, after, 1) is not None:
        return None
    if after == before and branch.at_snapshot(after) is None:
        return None
    older = tracker.continue_branch(branch, point, before, -1)
    if older is None:
        tracker.branches.append(branch)
        return branch
    return older if tracker.join(older, branch, before) else None


def _extend_branch(
    tracker: BranchTracker, branch: TrackedBranch, point: ContinuationPoint, direction: int
) -> TrackedBranch | None:
    """Extend a branch by a point beyond its end; return the absorbed branch, or None if another one passes there."""
    extension = _branch_through(tracker, point)
    if extension is None:
        extension = TrackedBranch([tracker.branch_point(point, count=True)])
        before, after = _neighbouring_snapshots(tracker, point.at)
        snapshot = after if direction > 0 else before
        if tracker.continue_branch(extension, point, snapshot, direction) is not None:
            return None
    else:
        end = extension.ends.get(-direction)
        if extension is branch or end is None or abs(end.inside - point.at) > SLACK * tracker.continuation.tolerance:
            return None
    branch.points += extension.points
    branch.crossings += extension.crossings
    branch.replace_end(direction, extension)
    tracker.branches = [other for other in tracker.branches if other is not extension]
    return extension


def _neighbouring_snapshots(tracker: BranchTracker, at: float) -> tuple[int, int]:
    """Return the snapshots before and after a parameter; the same one twice if the parameter is a snapshot."""
    at_or_after = int(np.searchsorted(tracker.parameters, at, side="left"))
    return int(np.searchsorted(tracker.parameters, at, side="right")) - 1, at_or_after


def _passes(tracker: BranchTracker, branch: TrackedBranch, point: ContinuationPoint) -> bool:
    """Return whether a branch passes through a point: continue it there, or the point back to the branch.

    Near a fold, steps away from it succeed even if steps towards it fail.
    """
    start = tracker.continuation_point(branch.nearest(point.at))
    return start is not None and (_leads(tracker, start, point) or _leads(tracker, point, start))


def _leads(tracker: BranchTracker, start: ContinuationPoint, end: ContinuationPoint) -> bool:
    arrival = tracker.continuation.arrival(start, end.at)
    return arrival is not None and matching_state(end.state, arrival.state[None]) == 0
