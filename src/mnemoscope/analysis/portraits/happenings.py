"""What happens to branches: points that appear, vanish and change stability, put together to bifurcations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from scipy.optimize import brentq

from mnemoscope.analysis.catalogue import magnitude
from mnemoscope.analysis.portraits.leading import growth, leading_eigenvalues
from mnemoscope.analysis.portraits.tracing import Corrector, Place
from mnemoscope.analysis.portraits.tracks import Follower, Node, Track, partners
from mnemoscope.analysis.search import find_fixed_points

NEAR = 0.3
"""Points that meet in a bifurcation are closer than this (rms, relative to states larger than 1) where they are last
seen, which is no further from it than the tolerance."""
ROUNDS = 3
"""How often what is missing at bifurcations is looked for."""
REAL = 1e-6
"""An eigenvalue with a smaller imaginary part counts as real."""


@dataclass(frozen=True, eq=False)
class Happening:
    """Something that happens to one branch between two parameters."""

    kind: Literal["appeared", "vanished", "crossed"]
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


def bifurcations(follower: Follower) -> list[Bifurcation]:
    """All of them, after what is missing at crossings of +1 was looked for near by."""
    tried: set[tuple[str, int, float]] = set()
    for _ in range(ROUNDS):
        open_ends = [
            part for one in _meetings(follower) if not one.complete for part in one.parts
            if (part.kind, part.track, part.low) not in tried
        ]  # fmt: skip
        tried |= {(part.kind, part.track, part.low) for part in open_ends}
        if not sum(_look_near(follower, part) for part in open_ends):
            break
    found = _meetings(follower)
    for number, track in enumerate(follower.tracks):
        found += _other_crossings(follower, number, track)
    return sorted(found, key=lambda one: one.parts[0].low)


def _look_near(follower: Follower, part: Happening) -> int:
    """Points near a singular place that lie on no known branch: how many were found."""
    new = 0
    for node in (part.node, part.after):
        place = None if node is None else follower.place_of(node)
        if place is None or place.index == 0:
            continue
        system = follower.tracer.system(place.at)
        found = find_fixed_points(system, partners(system, place), solver=Corrector())
        for point in range(len(found)):
            near = (found.states[point] - place.state).norm() <= NEAR * magnitude(place.state[None])
            other = follower.tracer.place(place.at, found, point)
            if near and other.index and not torch.equal(other.state, place.state):
                new += follower.admit(other)
    return new


def _happenings(follower: Follower) -> list[Happening]:
    happened = []
    for number, track in enumerate(follower.tracks):
        if track.born is not None:
            happened.append(Happening("appeared", number, track.born.beyond, track.born.there, track.born.place))
        if track.died is not None:
            happened.append(Happening("vanished", number, track.died.there, track.died.beyond, track.died.place))
        happened += [Happening("crossed", number, a.at, b.at, a, b) for a, b in track.crossings]
    return happened


def _meetings(follower: Follower) -> list[Bifurcation]:
    """Crossings of +1 with the branches that meet there, then pairs of what is left."""
    happened = _happenings(follower)
    unit = "0" if follower.tracer.system(follower.at[0]).continuous else "+1"
    found: list[Bifurcation] = []
    left = [one for one in happened if one.kind != "crossed"]
    crossed = [one for one in happened if one.kind == "crossed"]
    while crossed:
        main = crossed.pop(0)
        name, parts = "unknown", [main]
        for kind in ("appeared", "vanished"):
            near = [one for one in left if one.kind == kind and _meet(main, one, follower.tracer.tolerance)]
            near.sort(key=lambda one: _apart(main, one))
            two = near[:2]
            if len(two) == 2 and two[0].node.index == two[1].node.index:
                name, parts = "pitchfork", [main, *two]
                break
        if name == "unknown":
            others = [one for one in crossed if _meet(main, one, follower.tracer.tolerance)]
            others.sort(key=lambda one: _apart(main, one))
            if others:
                name, parts = "transcritical", [main, others[0]]
        left = [one for one in left if one not in parts]
        crossed = [one for one in crossed if one not in parts]
        found.append(Bifurcation(name, unit, tuple(parts), name != "unknown"))
    pairs = [
        (_apart(a, b), i, j)
        for i, a in enumerate(left)
        for j, b in enumerate(left)
        if i < j and a.kind == b.kind and a.node.index * b.node.index < 0 and _meet(a, b, follower.tracer.tolerance)
    ]
    used: set[int] = set()
    for _, i, j in sorted(pairs):
        if i not in used and j not in used:
            used |= {i, j}
            found.append(Bifurcation("saddle-node", unit, (left[i], left[j])))
    found += [Bifurcation("unknown", unit, (one,), False) for i, one in enumerate(left) if i not in used]
    return found


def _meet(a: Happening, b: Happening, tolerance: float) -> bool:
    overlap = max(a.low, b.low) - min(a.high, b.high) <= 2 * tolerance
    return a.track != b.track and overlap and _apart(a, b) <= NEAR


def _apart(a: Happening, b: Happening) -> float:
    return float((a.node.state - b.node.state).norm() / magnitude(a.node.state[None]))


def _other_crossings(follower: Follower, number: int, track: Track) -> list[Bifurcation]:
    """Crossings of -1 and of complex pairs, by the number of unstable directions between counted places."""
    found = []
    ends = [end.place for end in (track.born, track.died) if end is not None]
    sides = [node for pair in track.crossings for node in pair]
    counted = [node for node in [*track.nodes, *ends, *sides] if node.unstable >= 0 and node.index != 0]
    counted.sort(key=lambda node: node.at)
    for a, b in pairwise(counted):
        if a.unstable == b.unstable or a.index != b.index:
            continue
        mode, most = sorted((a.unstable, b.unstable))
        while mode < most:
            before, after, value = _locate(follower, a, b, mode)
            track.nodes += [side for side in (before, after) if side is not a and side is not b]
            name, crossing = _named(value, follower.tracer.system(a.at).continuous)
            found.append(
                Bifurcation(name, crossing, (Happening("crossed", number, before.at, after.at, before, after),))
            )
            mode += 2 if crossing != "-1" else 1  # complex values, and crossings that keep the index, come in pairs
    return found


def _locate(follower: Follower, a: Node, b: Node, mode: int) -> tuple[Node, Node, complex]:
    """Places before and after the eigenvalue that is `mode`-th by growth becomes (un)stable, and its value there.

    Growth in descending order is continuous in the parameter, whatever the eigenvalues do; it has a root in between.
    """
    tracer, start = follower.tracer, follower.place_of(a)
    values: dict[float, complex] = {}

    def place(at: float) -> Place:
        way = None if start is None else tracer.advance(start, at)
        if way is None or not way.arrived:
            raise RuntimeError
        return way.end

    def excess(at: float) -> float:
        system = tracer.system(at)
        leading, _ = leading_eigenvalues(place(at).jacobian, system.continuous)
        last = min(mode, len(leading) - 1)  # where fewer are returned, the last one is stable, and so is this one
        values[at] = complex(leading[last])
        return float(growth(leading, system.continuous)[last])

    try:
        solution: Any = brentq(excess, a.at, b.at, xtol=tracer.tolerance / 4)
        root = float(solution)
        low, high = max(a.at, root - tracer.tolerance / 2), min(b.at, root + tracer.tolerance / 2)
        before = a if low == a.at else follower.node(place(low), count=True)
        after = b if high == b.at else follower.node(place(high), count=True)
    except (RuntimeError, ValueError):  # the branch could not be followed here: then the bracket is all that is known
        return a, b, complex("nan")
    return before, after, values[min(values, key=lambda at: abs(at - root))]


def _named(value: complex, continuous: bool) -> tuple[str, str]:
    """The bifurcation in which this eigenvalue crosses, and what it crosses."""
    if value != value:
        return "unknown", "unknown"
    if abs(value.imag) > REAL:
        return ("Hopf", "imaginary pair") if continuous else ("Neimark-Sacker", "complex pair")
    if not continuous and value.real < 0:
        return "flip", "-1"
    return "double", "0 twice" if continuous else "+1 twice"
