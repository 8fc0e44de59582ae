"""What happens to branches: points that appear, vanish and change stability, put together to bifurcations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mnemoscope.lenses.bifurcations.branch_tracker import Follower
from mnemoscope.lenses.bifurcations.branches import Node, Track
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude

NEAR = 0.3
"""Points that meet in a bifurcation are closer than this (rms, relative to states larger than 1) where they are last
seen, which is no further from it than the tolerance; others meet only if the curve through one leads to the other."""

Links = Sequence[tuple[Track, Track]]
"""Branches of which it is known that one turns into the other at a fold."""


@dataclass(frozen=True, eq=False)
class Happening:
    """Something that happens to one branch between two parameters."""

    kind: Literal["appeared", "vanished", "crossed", "stayed"]
    track: int
    low: float
    high: float
    node: Node
    """The nearest place on the branch where its point exists; for a crossing, the one before it."""
    after: Node | None = None


@dataclass(frozen=True)
class Bifurcation:
    """Happenings that belong together."""

    name: str
    crossing: str
    parts: tuple[Happening, ...]
    complete: bool = True
    lacking: int = 0
    """What the indices of the points that appear or vanish lack to balance those of the branches that pass."""

    @property
    def changes(self) -> tuple[Happening, ...]:
        """The points that appear or vanish."""
        return tuple(part for part in self.parts if part.kind in ("appeared", "vanished"))


def happenings(follower: Follower) -> list[Happening]:
    """All births, deaths and crossings of +1, branch by branch."""
    happened = []
    for number, track in enumerate(follower.tracks):
        if track.born is not None:
            happened.append(Happening("appeared", number, track.born.beyond, track.born.there, track.born.place))
        if track.died is not None:
            happened.append(Happening("vanished", number, track.died.there, track.died.beyond, track.died.place))
        happened += [Happening("crossed", number, a.at, b.at, a, b) for a, b in track.crossings]
    return happened


def meetings(follower: Follower, links: Links) -> list[Bifurcation]:
    """Crossings of +1 with the branches that meet there, then pairs of what is left."""
    happened = happenings(follower)
    unit = "0" if follower.tracer.system(follower.at[0]).continuous else "+1"
    tolerance = follower.tracer.tolerance
    found: list[Bifurcation] = []
    left = [one for one in happened if one.kind != "crossed"]
    crossed = [one for one in happened if one.kind == "crossed"]
    while crossed:
        main = crossed.pop(0)
        name, parts = "unknown", [main]
        for kind in ("appeared", "vanished"):
            near = [one for one in left if one.kind == kind and _meet(main, one, tolerance)]
            near.sort(key=lambda one: _apart(main, one))
            two = near[:2]
            if len(two) == 2 and two[0].node.index == two[1].node.index:
                name, parts = "pitchfork", [main, *two]
                break
        if name == "unknown":
            others = [one for one in crossed if _meet(main, one, tolerance)]
            others.sort(key=lambda one: _apart(main, one))
            if others:
                name, parts = "transcritical", [main, others[0]]
        left = [one for one in left if one not in parts]
        crossed = [one for one in crossed if one not in parts]
        found.append(Bifurcation(name, unit, tuple(parts), name != "unknown"))
    linked = [{follower.tracks.index(a), follower.tracks.index(b)} for a, b in links]
    pairs = [
        (0.0 if {a.track, b.track} in linked else _apart(a, b), i, j)
        for i, a in enumerate(left)
        for j, b in enumerate(left)
        if i < j and a.kind == b.kind and a.node.index * b.node.index < 0
        and (_meet(a, b, tolerance) or ({a.track, b.track} in linked and _overlap(a, b, tolerance)))
    ]  # fmt: skip
    used: set[int] = set()
    for _, i, j in sorted(pairs):
        if i not in used and j not in used:
            used |= {i, j}
            found.append(Bifurcation("saddle-node", unit, (left[i], left[j])))
    found += [Bifurcation("unknown", unit, (one,), False) for i, one in enumerate(left) if i not in used]
    return found


def _overlap(a: Happening, b: Happening, tolerance: float) -> bool:
    return a.track != b.track and max(a.low, b.low) - min(a.high, b.high) <= 2 * tolerance


def _meet(a: Happening, b: Happening, tolerance: float) -> bool:
    return _overlap(a, b, tolerance) and _apart(a, b) <= NEAR


def _apart(a: Happening, b: Happening) -> float:
    return float((a.node.state - b.node.state).norm() / magnitude(a.node.state[None]))
