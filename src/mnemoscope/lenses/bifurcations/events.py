"""Events on single branches (births, deaths, crossings of +1), and their assembly to bifurcations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mnemoscope.lenses.bifurcations.branch_tracker import BranchTracker
from mnemoscope.lenses.bifurcations.branches import BranchPoint, TrackedBranch
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude

NEAR = 0.3
"""Largest distance of points that meet in a bifurcation, at their last points, which are within the tolerance of it
(rms, relative to states larger than 1). Points further apart meet only if the curve through one leads to the other."""

Links = list[tuple[TrackedBranch, TrackedBranch]]
"""Pairs of branches that are known to turn into each other at a fold."""


@dataclass(frozen=True, eq=False)
class BranchEvent:
    """An event on one branch between two parameters."""

    kind: Literal["appeared", "vanished", "crossed", "passed"]
    branch: int
    low: float
    high: float
    point: BranchPoint
    """The nearest point of the branch; for a crossing, the point before it."""
    after: BranchPoint | None = None
    """For a crossing, the point after it."""


@dataclass(frozen=True)
class Bifurcation:
    """Branch events that belong together."""

    name: str
    crossing: str
    events: tuple[BranchEvent, ...]
    complete: bool = True
    """Whether all branches that must take part were found."""
    missing_index: int = 0
    """Index that the points that appear or vanish lack to balance the branches that pass."""

    @property
    def changes(self) -> tuple[BranchEvent, ...]:
        """The births and deaths."""
        return tuple(event for event in self.events if event.kind in ("appeared", "vanished"))

    @property
    def low(self) -> float:
        """Least parameter of all events."""
        return min(event.low for event in self.events)

    @property
    def high(self) -> float:
        """Largest parameter of all events."""
        return max(event.high for event in self.events)


def branch_events(tracker: BranchTracker) -> list[BranchEvent]:
    """Return all births, deaths and crossings of +1, branch by branch."""
    events = []
    for number, branch in enumerate(tracker.branches):
        if birth := branch.ends.get(-1):
            events.append(BranchEvent("appeared", number, birth.outside, birth.inside, birth.point))
        if death := branch.ends.get(1):
            events.append(BranchEvent("vanished", number, death.inside, death.outside, death.point))
        events += [BranchEvent("crossed", number, a.at, b.at, a, b) for a, b in branch.crossings]
    return events


def assemble_bifurcations(tracker: BranchTracker, links: Links) -> list[Bifurcation]:
    """Match crossings of +1 with the branches that meet there, then pair the remaining births and deaths."""
    events = branch_events(tracker)
    unit = "0" if tracker.continuation.system(tracker.parameters[0]).continuous else "+1"
    tolerance = tracker.continuation.tolerance
    found: list[Bifurcation] = []
    ends = [event for event in events if event.kind != "crossed"]
    crossings = [event for event in events if event.kind == "crossed"]
    while crossings:
        main = crossings.pop(0)
        name, parts = "unknown", [main]
        for kind in ("appeared", "vanished"):
            near = [event for event in ends if event.kind == kind and _meet(main, event, tolerance)]
            two = sorted(near, key=lambda event: _distance(main, event))[:2]
            if len(two) == 2 and two[0].point.index == two[1].point.index:
                name, parts = "pitchfork", [main, *two]
                break
        if name == "unknown":
            others = [event for event in crossings if _meet(main, event, tolerance)]
            if others:
                name, parts = "transcritical", [main, min(others, key=lambda event: _distance(main, event))]
        ends = [event for event in ends if event not in parts]
        crossings = [event for event in crossings if event not in parts]
        found.append(Bifurcation(name, unit, tuple(parts), name != "unknown"))
    pairs = _fold_pairs(tracker, ends, links)
    paired = {number for pair in pairs for number in pair}
    found += [Bifurcation("saddle-node", unit, (ends[i], ends[j])) for i, j in pairs]
    found += [Bifurcation("unknown", unit, (event,), False) for i, event in enumerate(ends) if i not in paired]
    return found


def _fold_pairs(tracker: BranchTracker, ends: list[BranchEvent], links: Links) -> list[tuple[int, int]]:
    """Return pairs of births, or of deaths, with opposite index that meet in a fold, the nearest first."""
    tolerance = tracker.continuation.tolerance
    linked = [{tracker.branches.index(a), tracker.branches.index(b)} for a, b in links]
    candidates = []
    for i, a in enumerate(ends):
        for j, b in enumerate(ends[i + 1 :], i + 1):
            if a.kind != b.kind or a.point.index * b.point.index >= 0:
                continue
            if {a.branch, b.branch} in linked:
                if _overlap(a, b, tolerance):
                    candidates.append((0.0, i, j))
            elif _meet(a, b, tolerance):
                candidates.append((_distance(a, b), i, j))
    pairs: list[tuple[int, int]] = []
    used: set[int] = set()
    for _, i, j in sorted(candidates):
        if i not in used and j not in used:
            used |= {i, j}
            pairs.append((i, j))
    return pairs


def _overlap(a: BranchEvent, b: BranchEvent, tolerance: float) -> bool:
    return a.branch != b.branch and max(a.low, b.low) - min(a.high, b.high) <= 2 * tolerance


def _meet(a: BranchEvent, b: BranchEvent, tolerance: float) -> bool:
    return _overlap(a, b, tolerance) and _distance(a, b) <= NEAR


def _distance(a: BranchEvent, b: BranchEvent) -> float:
    return float((a.point.state - b.point.state).norm() / magnitude(a.point.state[None]))
