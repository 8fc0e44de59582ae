"""Crossings that keep the index: of -1, of complex pairs, and of +1 twice. They show in the eigenvalues alone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from scipy.optimize import brentq

from mnemoscope.lenses.bifurcations.branch_tracker import BranchTracker
from mnemoscope.lenses.bifurcations.branches import BranchPoint, TrackedBranch
from mnemoscope.lenses.bifurcations.continuation_points import ContinuationPoint
from mnemoscope.lenses.bifurcations.events import Bifurcation, BranchEvent
from mnemoscope.lenses.fixed_points.stability import growth, leading_eigenvalues

REAL = 1e-6
"""Largest imaginary part of an eigenvalue that counts as real."""


def index_preserving_crossings(tracker: BranchTracker, number: int, branch: TrackedBranch) -> list[Bifurcation]:
    """Return the crossings shown by changes of the number of unstable directions along a branch."""
    found = []
    ends = [end.point for end in branch.ends.values()]
    sides = [point for pair in branch.crossings for point in pair]
    counted = [point for point in [*branch.points, *ends, *sides] if point.unstable >= 0 and point.index != 0]
    counted.sort(key=lambda point: point.at)
    for a, b in pairwise(counted):
        if a.unstable == b.unstable or a.index != b.index:
            continue
        mode, most = sorted((a.unstable, b.unstable))
        while mode < most:
            before, after, value = _locate(tracker, a, b, mode)
            branch.points += [side for side in (before, after) if side is not a and side is not b]
            name, crossing = _classify(value, tracker.continuation.system(a.at).continuous)
            event = BranchEvent("crossed", number, before.at, after.at, before, after)
            found.append(Bifurcation(name, crossing, (event,)))
            mode += 2 if crossing != "-1" else 1  # complex values, and crossings that keep the index, come in pairs
    return found


def _locate(
    tracker: BranchTracker, a: BranchPoint, b: BranchPoint, mode: int
) -> tuple[BranchPoint, BranchPoint, complex]:
    """Return points before and after the `mode`-th eigenvalue by growth crosses the boundary, and its value there.

    Growth in descending order is continuous in the parameter, whatever the eigenvalues do, and has a root in between.
    """
    continuation, start = tracker.continuation, tracker.continuation_point(a)
    values: dict[float, complex] = {}

    def point(at: float) -> ContinuationPoint:
        arrival = continuation.arrival(start, at)
        if arrival is None:
            raise RuntimeError
        return arrival

    def growth_of_mode(at: float) -> float:
        system = continuation.system(at)
        leading, _ = leading_eigenvalues(point(at).jacobian, system.continuous)
        last = min(mode, len(leading) - 1)  # if fewer are returned, the last one is stable, and so is this one
        values[at] = complex(leading[last])
        return float(growth(leading, system.continuous)[last])

    try:
        solution: Any = brentq(growth_of_mode, a.at, b.at, xtol=continuation.tolerance / 4)
        root = float(solution)
        low, high = max(a.at, root - continuation.tolerance / 2), min(b.at, root + continuation.tolerance / 2)
        before = a if low == a.at else tracker.branch_point(point(low), count=True)
        after = b if high == b.at else tracker.branch_point(point(high), count=True)
    except (RuntimeError, ValueError):  # the branch could not be continued here: only the bracket is known
        return a, b, complex("nan")
    return before, after, values[min(values, key=lambda at: abs(at - root))]


def _classify(value: complex, continuous: bool) -> tuple[str, str]:
    """Return the bifurcation in which this eigenvalue crosses, and what it crosses."""
    if value != value:
        return "unknown", "unknown"
    if abs(value.imag) > REAL:
        return ("Hopf", "imaginary pair") if continuous else ("Neimark-Sacker", "complex pair")
    if not continuous and value.real < 0:
        return "flip", "-1"
    return "double", "0 twice" if continuous else "+1 twice"
