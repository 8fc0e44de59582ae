"""Tracking of all branches, snapshot by snapshot: the work of `track_fixed_points`."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from mnemoscope.base.progress import Bar
from mnemoscope.lenses.bifurcations.branches import BranchEnd, BranchPoint, TrackedBranch, matching_state
from mnemoscope.lenses.bifurcations.continuation_points import BranchSegment, ContinuationPoint
from mnemoscope.lenses.bifurcations.snapshots import SnapshotSearch
from mnemoscope.lenses.fixed_points.outcomes import Status
from mnemoscope.lenses.fixed_points.stability import DENSE, leading_eigenvalues


class BranchTracker:
    """Tracks all points of a family from snapshot to snapshot: forwards, and backwards from points that are new."""

    def __init__(
        self, snapshots: SnapshotSearch, *, eigenvalues: int, counted: tuple[bool, ...], progress: bool
    ) -> None:
        self.snapshots, self.continuation = snapshots, snapshots.continuation
        self.parameters, self.notes, self.bounded = snapshots.parameters, snapshots.notes, snapshots.bounded
        self.eigenvalues, self.counted, self.progress = eigenvalues, counted, progress
        self.branches: list[TrackedBranch] = []
        self._active: dict[int, ContinuationPoint] = {}
        """Points at the latest snapshot, by the number of their branch."""

    def run(self) -> None:
        """Track the points over all snapshots."""
        found = self.snapshots.search(0, lambda to: [])
        for number in range(len(found)):
            self._add_appeared(self.continuation.found_point(self.parameters[0], found, number), 0)
        for snapshot in Bar(range(1, len(self.parameters)), desc="snapshots", disable=not self.progress):
            self._continue_to(snapshot)

    def branch_point(self, point: ContinuationPoint, snapshot: int = -1, count: bool = False) -> BranchPoint:
        """Return a point for a branch, with eigenvalues only if they are asked for or cheap."""
        count = count or len(point.state) <= DENSE or (snapshot >= 0 and self.counted[snapshot])
        values, unstable = None, -1
        if count:
            values, unstable = leading_eigenvalues(point.jacobian, self.continuation.system(point.at).continuous)
            values = values[: self.eigenvalues]
        return BranchPoint(point.at, point.state.cpu(), point.index, point.q, snapshot, unstable, values)

    def continuation_point(self, point: BranchPoint) -> ContinuationPoint | None:
        """Return a point of a branch with its factors, computed anew."""
        return self.continuation.corrected(point.at, point.state.to(self.continuation.system(point.at).device))

    def continue_branch(
        self, branch: TrackedBranch, point: ContinuationPoint, snapshot: int, direction: int
    ) -> TrackedBranch | None:
        """Continue a point from snapshot to snapshot until it is lost; return a known branch that it meets, if any."""
        while 0 <= snapshot < len(self.bounded):
            segment = self.continuation.advance(point, self.parameters[snapshot])
            self._record(branch, segment, direction)
            if not segment.arrived:
                return None
            known = self._known_branch(segment.end.state, snapshot)
            if known is not None:
                return known
            point = segment.end
            if point.at != branch.points[-1].at or branch.at_snapshot(snapshot) is None:
                branch.points.append(self.branch_point(point, snapshot))
            snapshot += direction
        return None

    def crossings(self, segment: BranchSegment) -> list[tuple[BranchPoint, BranchPoint]]:
        """Return the points before and after each crossing, with eigenvalues, in the order of the parameter."""
        pairs = [sorted(crossing, key=lambda point: point.at) for crossing in segment.crossings]
        return [
            (self.branch_point(before, count=True), self.branch_point(after, count=True)) for before, after in pairs
        ]

    def join(self, older: TrackedBranch, branch: TrackedBranch, snapshot: int) -> bool:
        """Join a branch that was lost after a snapshot with one that leads back to it; return whether they fit."""
        if 1 not in older.ends or older.at_snapshot(snapshot + 1) is not None:
            return False
        limit = self.parameters[snapshot]
        older.points = [point for point in older.points if point.at <= limit] + branch.points
        older.crossings = [pair for pair in older.crossings if pair[1].at <= limit] + branch.crossings
        older.replace_end(1, branch)
        return True

    def _continue_to(self, snapshot: int) -> None:
        """Continue all active points to the next snapshot, and search new ones there."""
        active, self._active = self._active, {}
        found = self.snapshots.search(snapshot, lambda to: [self._predict(point, to)[1] for point in active.values()])
        to = self.parameters[snapshot]
        assert found.starts is not None

        @cache  # factorised when first needed
        def arrival(root: int) -> ContinuationPoint:
            return self.continuation.found_point(to, found, root)

        aims = found.starts.point[: len(active)].tolist()
        converged = (found.starts.status[: len(active)] == int(Status.FIXED)).tolist()
        tangents = {number: self._predict(point, to)[0] for number, point in active.items()}
        taken: dict[int, int] = {}
        astray = []
        for (number, here), aim, fixed in zip(active.items(), aims, converged, strict=True):
            alone = fixed and sum(other == aim and ok for other, ok in zip(aims, converged, strict=True)) == 1
            if not alone or not self._is_same(here, tangents[number], arrival(aim)):
                astray.append(number)
                continue
            taken[aim], new = number, arrival(aim)
            # If the index is not known here, the last known one counts.
            self._arrive(number, new if new.index else replace(new, last_known=here.last_known), snapshot)
        for number in astray:
            segment = self.continuation.advance(active[number], to)
            self._record(self.branches[number], segment, 1)
            if not segment.arrived:
                continue
            root = matching_state(segment.end.state, found.states)
            if root in taken:
                self._record_collision(self.branches[number], number, taken[root], snapshot, 1)
                continue
            if root >= 0:
                taken[root] = number
            self._arrive(number, segment.end, snapshot)
        for root in range(len(found)):
            if root not in taken:
                self._add_appeared(arrival(root), snapshot)

    def _is_same(self, here: ContinuationPoint, tangent: Tensor, new: ContinuationPoint) -> bool:
        """Return whether a point that the search reached from a prediction is trusted to continue the old one."""
        if new.index * here.last_known[1] < 0 or here.index == 0:
            return False
        return self.continuation.within_reach(here, tangent) and self.continuation.trusts(here, tangent, new)

    def _predict(self, here: ContinuationPoint, to: float) -> tuple[Tensor, Tensor]:
        """Return the tangent prediction and a start for the search."""
        tangent, start = self.continuation.predict(here, to)
        usable = self.continuation.within_reach(here, tangent) and bool(torch.isfinite(start).all())
        return tangent, start if usable else here.state

    def _arrive(self, number: int, point: ContinuationPoint, snapshot: int) -> None:
        self.branches[number].points.append(self.branch_point(point, snapshot))
        self._active[number] = point

    def _add_appeared(self, point: ContinuationPoint, snapshot: int) -> None:
        """Add a point that no branch led to, and continue it back to its birth or to the first snapshot."""
        if self._is_degenerate(point):
            return
        branch = TrackedBranch([self.branch_point(point, snapshot)])
        older = self.continue_branch(branch, point, snapshot - 1, -1)
        if older is not None and self.join(older, branch, snapshot - 1):
            self._active[self.branches.index(older)] = point
            return
        if older is not None:
            self._record_collision(branch, len(self.branches), self.branches.index(older), snapshot, -1)
        self._active[len(self.branches)] = point
        self.branches.append(branch)

    def _record(self, branch: TrackedBranch, segment: BranchSegment, direction: int) -> None:
        """Record a segment in its branch; if it arrived, the caller adds its last point."""
        inner = segment.points[1:-1] if segment.arrived else segment.points[1:]
        branch.points += [self.branch_point(point) for point in inner]
        branch.crossings += self.crossings(segment)
        if segment.stuck:
            self.notes.append(
                f"The continuation of a point stopped near {segment.end.at:g} after too many short steps; where the "
                f"branch ends is not known."
            )
        if not segment.arrived:
            point = self.branch_point(segment.end, count=True)
            branch.ends[direction] = BranchEnd(segment.end.at, segment.lost_at, point)

    def _record_collision(self, branch: TrackedBranch, number: int, other: int, snapshot: int, direction: int) -> None:
        """Record that two branches led to one point, which is impossible: one of the continuations is wrong."""
        before, after = self.parameters[snapshot - 1 : snapshot + 1]
        branch.ends[direction] = BranchEnd(*((before, after) if direction > 0 else (after, before)), branch.points[-1])
        self.notes.append(
            f"Between {before:g} and {after:g} branches {number} and {other} merge in the continuation; where branch "
            f"{number} {'ends' if direction > 0 else 'begins'} is not known. Take snapshots at smaller distances."
        )

    def _is_degenerate(self, point: ContinuationPoint) -> bool:
        if point.index:
            return False
        self.notes.append(
            f"At {point.at:g} there is a degenerate point (a double point, or one of a line of points), which has no "
            f"index and is not tracked."
        )
        return True

    def _known_branch(self, state: Tensor, snapshot: int) -> TrackedBranch | None:
        """Return the branch with this state at a snapshot, if there is one."""
        for branch in self.branches:
            point = branch.at_snapshot(snapshot)
            if point is not None and matching_state(state, point.state[None]) == 0:
                return branch
        return None
