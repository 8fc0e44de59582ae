"""Detection of all bifurcations, including a search for the branches that an incomplete one lacks."""

from __future__ import annotations

import torch

from mnemoscope.lenses.bifurcations.arclength import continue_by_arclength
from mnemoscope.lenses.bifurcations.branch_extension import add_branch, branch_through, extend_branch
from mnemoscope.lenses.bifurcations.branch_tracker import BranchTracker
from mnemoscope.lenses.bifurcations.branches import TrackedBranch
from mnemoscope.lenses.bifurcations.continuation_points import NewtonCorrector
from mnemoscope.lenses.bifurcations.crossings import index_preserving_crossings
from mnemoscope.lenses.bifurcations.events import NEAR, Bifurcation, BranchEvent, Links, assemble_bifurcations
from mnemoscope.lenses.bifurcations.folds import partner_starts
from mnemoscope.lenses.bifurcations.grouping import group_bifurcations
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude

ROUNDS = 4
"""Largest number of searches for missing branches."""


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
                new = add_branch(tracker, other) is not None or new
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
        absorbed = extend_branch(tracker, branch, other, direction) if other.index == here.index else None
        if absorbed is not None:
            links[:] = [(branch if a is absorbed else a, branch if b is absorbed else b) for a, b in links]
        return absorbed is not None
    if other.index == here.index:
        return False  # through a pitchfork from prong to prong
    partner = branch_through(tracker, other) or add_branch(tracker, other)
    if partner is None or partner is branch:
        return False
    links.append((branch, partner))
    return True
