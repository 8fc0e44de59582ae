"""Bifurcations at one point: several branches that meet there, as far as the tolerance tells.

Points that part at a fold or fork do so as the root of the distance in the parameter: their sum of squares about their
mean is linear in it, and extrapolates to 0 where they meet. Points are taken to meet in one bifurcation if their sum of
squares vanishes inside the bracket that was found for it, which is about a tolerance wide. For the pair of a fold and a
third point at a distance D, it vanishes at (4/3) (D / L)^2 tolerances from the fold, where L is the distance of the two
points one tolerance beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from mnemoscope.lenses.bifurcations.branch_tracker import Follower
from mnemoscope.lenses.bifurcations.events import Bifurcation, Happening

FIRST, SECOND = 0.5, 1.5
"""Tolerances beyond the bracket at which the points are compared."""
FAR = 10.0
"""A branch further off than so many times the size of what meets is not followed there, since it cannot belong."""
UNIT = ("0", "+1", "0 twice", "+1 twice")


def gathered(follower: Follower, found: list[Bifurcation]) -> list[Bifurcation]:
    """The same bifurcations, those at one point put together, with the branches that pass through it."""
    meeting = _Meeting(follower)
    groups: list[Bifurcation] = []
    rest = []
    for one in sorted(found, key=lambda one: one.parts[0].low):
        if not one.changes:
            rest.append(one)
            continue
        joined = one
        for group in list(groups):
            both = _together(group, joined)
            if _same_side(group, joined, follower.tracer.tolerance) and meeting.at_one_point(both):
                groups.remove(group)
                joined = both
        groups.append(joined)
    groups = [meeting.balanced(group) for group in _apart(groups, meeting)]
    return groups + [one for one in rest if not any(_part_of(one, group, follower) for group in groups)]


def _apart(groups: list[Bifurcation], meeting: _Meeting) -> list[Bifurcation]:
    """With the branches that pass. One that would pass through two of them at once, on its two sides, is in neither."""
    wider = [meeting.with_passers(group) for group in groups]
    kept = []
    for group, wide in zip(groups, wider, strict=True):
        shared = any(
            other is not wide and _passing(other) & _passing(wide) and _same_side(other, wide, meeting.tolerance)
            for other in wider
        )
        kept.append(group if shared else wide)
    return kept


def _passing(one: Bifurcation) -> set[int]:
    return {part.track for part in one.parts if part.kind == "stayed"}


def _together(one: Bifurcation, other: Bifurcation) -> Bifurcation:
    return Bifurcation("multiple", one.crossing, (*one.parts, *other.parts))


def _same_side(one: Bifurcation, other: Bifurcation, tolerance: float) -> bool:
    apart = max(_low(one), _low(other)) - min(_high(one), _high(other))
    return one.changes[0].kind == other.changes[0].kind and apart <= 2 * tolerance


def _part_of(one: Bifurcation, group: Bifurcation, follower: Follower) -> bool:
    """Whether a change of stability is that of a branch in a larger bifurcation."""
    own = {part.track for part in group.parts}
    apart = max(_low(one), _low(group)) - min(_high(one), _high(group))
    return (
        one.crossing in UNIT
        and own >= {part.track for part in one.parts}
        and apart <= 2 * follower.tracer.tolerance
        and group.name in ("multiple", "pitchfork")
    )


def _low(one: Bifurcation) -> float:
    return min(part.low for part in one.parts)


def _high(one: Bifurcation) -> float:
    return max(part.high for part in one.parts)


class _Meeting:
    """Follows branches to the same two parameters beside a bifurcation, and remembers where they were."""

    def __init__(self, follower: Follower) -> None:
        self.follower, self.tolerance = follower, follower.tracer.tolerance
        self._states: dict[tuple[int, float], Tensor | None] = {}

    def beside(self, one: Bifurcation) -> tuple[float, float]:
        """Two parameters on the side where the points are."""
        appeared = one.changes[0].kind == "appeared"
        edge, way = (max(part.high for part in one.changes), 1) if appeared else (
            min(part.low for part in one.changes), -1)  # fmt: skip
        return edge + way * FIRST * self.tolerance, edge + way * SECOND * self.tolerance

    def at_one_point(self, one: Bifurcation) -> bool:
        """Whether the sum of squares of these branches vanishes inside the bracket."""
        a, b = self.beside(one)
        tracks = sorted({part.track for part in one.parts})
        first, second = self._spread(tracks, a), self._spread(tracks, b)
        if first is None or second is None or second <= first:
            return False
        meet = a - (b - a) * first / (second - first)
        return _low(one) <= meet <= _high(one)

    def with_passers(self, one: Bifurcation) -> Bifurcation:
        """The bifurcation with the branches that pass through its point, the nearest first."""
        a, b = self.beside(one)
        own = {part.track for part in one.parts}
        spread = self._spread(sorted(own), b)
        if spread is None:
            return one
        centre = torch.stack([self.follower.tracks[track].interpolated(b) for track in sorted(own)]).mean(0)
        others = []
        for number, track in enumerate(self.follower.tracks):
            if number not in own and track.covers(a) and track.covers(b):
                others.append((float((track.interpolated(b) - centre).square().sum()), number))
        for square, number in sorted(others):
            if square > FAR**2 * spread:
                break
            node = self.follower.tracks[number].nearest(b)
            more = Happening("stayed", number, _low(one), _high(one), node)
            fork = one.name == "saddle-node"
            wider = Bifurcation("pitchfork" if fork else "multiple", one.crossing, (more, *one.parts))
            if not self.at_one_point(wider):
                break
            one = wider
        return one

    def balanced(self, one: Bifurcation) -> Bifurcation:
        """With what the indices lack: their sum over the branches is the same before and after."""
        if one.name != "multiple":
            return one
        a, _ = self.beside(one)
        low, high = (_low(one), a) if a > _high(one) else (a, _high(one))
        sums = [0, 0]
        for number in {part.track for part in one.parts}:
            nodes = [node for node in self.follower.tracks[number].nodes if node.index]
            before, after = [n for n in nodes if n.at <= low], [n for n in nodes if n.at >= high]
            sums[0] += max(before, key=lambda node: node.at).index if before else 0
            sums[1] += min(after, key=lambda node: node.at).index if after else 0
        appeared = one.changes[0].kind == "appeared"
        return replace(one, lacking=sums[0] - sums[1] if appeared else sums[1] - sums[0])

    def _spread(self, tracks: Iterable[int], at: float) -> float | None:
        """Sum of squares about the mean at a parameter; None where one of the branches cannot be followed there."""
        states = [self._state(track, at) for track in tracks]
        if any(state is None for state in states):
            return None
        both = torch.stack([state for state in states if state is not None])
        return float((both - both.mean(0)).square().sum())

    def _state(self, number: int, at: float) -> Tensor | None:
        if (number, at) not in self._states:
            self._states[number, at] = self._followed(number, at)
        return self._states[number, at]

    def _followed(self, number: int, at: float) -> Tensor | None:
        follower = self.follower
        track = follower.tracks[number]
        if not follower.at[0] <= at <= follower.at[-1] or not track.covers(at):
            return None
        start = follower.place_of(track.nearest(at))
        way = None if start is None else follower.tracer.advance(start, at)
        return way.end.state.cpu() if way is not None and way.arrived else None
