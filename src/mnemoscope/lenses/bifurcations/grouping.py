"""Grouping of bifurcations at one point: several branches that meet there, to within the tolerance.

Points that separate at a fold or pitchfork do so as the root of the distance in the parameter: their sum of squares
about their mean is linear in it, and extrapolates to 0 where they meet. Points meet in one bifurcation if their sum of
squares vanishes inside its bracket, which is about a tolerance wide. For the pair of a fold and a third point at a
distance D, it vanishes at (4/3) (D / L)^2 tolerances from the fold, where L is the distance of the two points one
tolerance beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from mnemoscope.lenses.bifurcations.branch_tracker import BranchTracker
from mnemoscope.lenses.bifurcations.events import Bifurcation, BranchEvent

FIRST, SECOND = 0.5, 1.5
"""Tolerances beyond the bracket at which the points are compared."""
FAR = 10.0
"""Distance, in sizes of the group, beyond which a branch cannot belong to it and is not continued there."""
UNIT = ("0", "+1", "0 twice", "+1 twice")
"""Crossings of the boundary at +1 (at 0 in a flow)."""


def group_bifurcations(tracker: BranchTracker, found: list[Bifurcation]) -> list[Bifurcation]:
    """Join the bifurcations at one point, and add the branches that pass through it."""
    meeting = _MeetingTest(tracker)
    groups: list[Bifurcation] = []
    crossings_only = []
    for bifurcation in sorted(found, key=lambda bifurcation: bifurcation.events[0].low):
        if not bifurcation.changes:
            crossings_only.append(bifurcation)
            continue
        joined = bifurcation
        for group in list(groups):
            both = Bifurcation("multiple", group.crossing, (*group.events, *joined.events))
            if _same_side(group, joined, meeting.tolerance) and meeting.at_one_point(both):
                groups.remove(group)
                joined = both
        groups.append(joined)
    groups = [meeting.balanced(group) for group in _with_unambiguous_passers(groups, meeting)]
    return groups + [
        bifurcation
        for bifurcation in crossings_only
        if not any(_is_part_of(bifurcation, group, meeting.tolerance) for group in groups)
    ]


def _with_unambiguous_passers(groups: list[Bifurcation], meeting: _MeetingTest) -> list[Bifurcation]:
    """Add the branches that pass. A branch that would pass through two groups, one on either side, is in neither."""
    wider_groups = [meeting.with_passers(group) for group in groups]
    kept = []
    for group, wider in zip(groups, wider_groups, strict=True):
        shared = any(
            other is not wider and _passing(other) & _passing(wider) and _same_side(other, wider, meeting.tolerance)
            for other in wider_groups
        )
        kept.append(group if shared else wider)
    return kept


def _passing(bifurcation: Bifurcation) -> set[int]:
    return {event.branch for event in bifurcation.events if event.kind == "passed"}


def _same_side(group: Bifurcation, other: Bifurcation, tolerance: float) -> bool:
    """Return whether points appear in both, or vanish in both, at nearly the same parameter."""
    return group.changes[0].kind == other.changes[0].kind and _gap(group, other) <= 2 * tolerance


def _is_part_of(bifurcation: Bifurcation, group: Bifurcation, tolerance: float) -> bool:
    """Return whether a change of stability belongs to a branch in a larger bifurcation."""
    return (
        bifurcation.crossing in UNIT
        and {event.branch for event in group.events} >= {event.branch for event in bifurcation.events}
        and _gap(bifurcation, group) <= 2 * tolerance
        and group.name in ("multiple", "pitchfork")
    )


def _gap(bifurcation: Bifurcation, other: Bifurcation) -> float:
    """Return the gap between two brackets in the parameter; negative if they overlap."""
    return max(bifurcation.low, other.low) - min(bifurcation.high, other.high)


class _MeetingTest:
    """Continues branches to the same two parameters next to a bifurcation, and caches their states."""

    def __init__(self, tracker: BranchTracker) -> None:
        self.tracker, self.tolerance = tracker, tracker.continuation.tolerance
        self._states: dict[tuple[int, float], Tensor | None] = {}

    def at_one_point(self, bifurcation: Bifurcation) -> bool:
        """Return whether the sum of squares of its branches vanishes inside the bracket."""
        a, b = self._comparison_parameters(bifurcation)
        branches = sorted({event.branch for event in bifurcation.events})
        first, second = self._sum_of_squares(branches, a), self._sum_of_squares(branches, b)
        if first is None or second is None or second <= first:
            return False
        meet = a - (b - a) * first / (second - first)
        return bifurcation.low <= meet <= bifurcation.high

    def with_passers(self, bifurcation: Bifurcation) -> Bifurcation:
        """Return the bifurcation with the branches that pass through its point, nearest first."""
        a, b = self._comparison_parameters(bifurcation)
        members = {event.branch for event in bifurcation.events}
        size = self._sum_of_squares(sorted(members), b)
        if size is None:
            return bifurcation
        branches = self.tracker.branches
        centre = torch.stack([branches[number].interpolated(b) for number in sorted(members)]).mean(0)
        others = []
        for number, branch in enumerate(branches):
            if number not in members and branch.covers(a) and branch.covers(b):
                others.append((float((branch.interpolated(b) - centre).square().sum()), number))
        for square, number in sorted(others):
            if square > FAR**2 * size:
                break
            passer = BranchEvent("passed", number, bifurcation.low, bifurcation.high, branches[number].nearest(b))
            name = "pitchfork" if bifurcation.name == "saddle-node" else "multiple"
            wider = Bifurcation(name, bifurcation.crossing, (passer, *bifurcation.events))
            if not self.at_one_point(wider):
                break
            bifurcation = wider
        return bifurcation

    def balanced(self, bifurcation: Bifurcation) -> Bifurcation:
        """Return the bifurcation with its missing index: the sum over the branches must be equal before and after."""
        if bifurcation.name != "multiple":
            return bifurcation
        a, _ = self._comparison_parameters(bifurcation)
        low, high = (bifurcation.low, a) if a > bifurcation.high else (a, bifurcation.high)
        sums = [0, 0]
        for number in {event.branch for event in bifurcation.events}:
            points = [point for point in self.tracker.branches[number].points if point.index]
            before, after = [p for p in points if p.at <= low], [p for p in points if p.at >= high]
            sums[0] += max(before, key=lambda point: point.at).index if before else 0
            sums[1] += min(after, key=lambda point: point.at).index if after else 0
        appeared = bifurcation.changes[0].kind == "appeared"
        return replace(bifurcation, missing_index=sums[0] - sums[1] if appeared else sums[1] - sums[0])

    def _comparison_parameters(self, bifurcation: Bifurcation) -> tuple[float, float]:
        """Return two parameters on the side on which the points exist."""
        if bifurcation.changes[0].kind == "appeared":
            edge, sign = max(event.high for event in bifurcation.changes), 1
        else:
            edge, sign = min(event.low for event in bifurcation.changes), -1
        return edge + sign * FIRST * self.tolerance, edge + sign * SECOND * self.tolerance

    def _sum_of_squares(self, branches: Iterable[int], at: float) -> float | None:
        """Return the sum of squares about the mean at a parameter; None if a branch cannot be continued there."""
        states = [self._state(number, at) for number in branches]
        if any(state is None for state in states):
            return None
        stacked = torch.stack([state for state in states if state is not None])
        return float((stacked - stacked.mean(0)).square().sum())

    def _state(self, number: int, at: float) -> Tensor | None:
        if (number, at) not in self._states:
            tracker, branch = self.tracker, self.tracker.branches[number]
            known = tracker.parameters[0] <= at <= tracker.parameters[-1] and branch.covers(at)
            start = tracker.continuation_point(branch.nearest(at)) if known else None
            arrival = tracker.continuation.arrival(start, at)
            self._states[number, at] = None if arrival is None else arrival.state.cpu()
        return self._states[number, at]
