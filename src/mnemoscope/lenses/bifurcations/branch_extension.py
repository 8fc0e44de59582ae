"""Points found between snapshots: the branch they belong to, and branches that they add or extend."""

from __future__ import annotations

import numpy as np

from mnemoscope.lenses.bifurcations.branch_tracker import BranchTracker
from mnemoscope.lenses.bifurcations.branches import TrackedBranch, matching_state
from mnemoscope.lenses.bifurcations.continuation_points import ContinuationPoint

CANDIDATES = 3
"""Branches that are continued to a point to see whether they pass through it, nearest first."""
SLACK = 4.0
"""Tolerances within which the beginning of a branch counts as the continuation of another."""


def branch_through(tracker: BranchTracker, point: ContinuationPoint) -> TrackedBranch | None:
    """Return the branch that passes through a point, if there is one."""
    slack = 2 * tracker.continuation.tolerance
    candidates = [branch for branch in tracker.branches if branch.covers(point.at, slack)]
    state = point.state.cpu()
    candidates.sort(key=lambda branch: float((branch.interpolated(point.at) - state).norm()))
    return next((branch for branch in candidates[:CANDIDATES] if _passes(tracker, branch, point)), None)


def add_branch(tracker: BranchTracker, point: ContinuationPoint) -> TrackedBranch | None:
    """Continue a point found between snapshots in both directions; return None if it lies on a known branch."""
    if branch_through(tracker, point) is not None:
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


def extend_branch(
    tracker: BranchTracker, branch: TrackedBranch, point: ContinuationPoint, direction: int
) -> TrackedBranch | None:
    """Extend a branch that seemed to end by a point beyond its end.

    Return the branch that was absorbed, or None if another branch passes through the point.
    """
    extension = branch_through(tracker, point)
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
