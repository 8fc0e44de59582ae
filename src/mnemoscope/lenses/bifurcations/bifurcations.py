"""All bifurcations of the branches, after what is missing at them was looked for."""

from __future__ import annotations

import torch

from mnemoscope.lenses.bifurcations.additions import admit, go_on, owner
from mnemoscope.lenses.bifurcations.arclength import round_the_bend
from mnemoscope.lenses.bifurcations.branch_tracker import Follower
from mnemoscope.lenses.bifurcations.branches import Track
from mnemoscope.lenses.bifurcations.continuation_points import Corrector
from mnemoscope.lenses.bifurcations.crossings import other_crossings
from mnemoscope.lenses.bifurcations.events import NEAR, Bifurcation, Happening, meetings
from mnemoscope.lenses.bifurcations.folds import partners
from mnemoscope.lenses.bifurcations.grouping import gathered
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude

ROUNDS = 4
"""How often what is missing at bifurcations is looked for."""


def bifurcations(follower: Follower) -> list[Bifurcation]:
    """All of them, in the order of the parameter."""
    links: list[tuple[Track, Track]] = []
    tried: set[tuple[str, int, float]] = set()
    for _ in range(ROUNDS):
        ends = [part for one in meetings(follower, links) if not one.complete for part in one.parts]
        ends = [part for part in ends if (part.kind, id(part.node), part.low) not in tried]
        tried |= {(part.kind, id(part.node), part.low) for part in ends}
        tracks = [follower.tracks[part.track] for part in ends]  # by themselves: their numbers may change on the way
        news = [_complete(follower, part, track, links) for part, track in zip(ends, tracks, strict=True)]
        if not any(news):
            break
    found = meetings(follower, links)
    for number, track in enumerate(follower.tracks):
        found += other_crossings(follower, number, track)
    return sorted(gathered(follower, found), key=lambda one: one.parts[0].low)


def _complete(follower: Follower, part: Happening, track: Track, links: list[tuple[Track, Track]]) -> bool:
    """Look for what is missing at an end or crossing; whether anything was learnt."""
    if not any(one is track for one in follower.tracks):
        return False  # it became part of another meanwhile
    found = _look_near(follower, part)
    if part.kind != "crossed":
        found = _look_through(follower, part, track) or found
        found = _look_round(follower, part, track, links) or found
    return found


def _look_through(follower: Follower, part: Happening, track: Track) -> bool:
    """Whether the branch that passes nearest crosses +1 here: one that crosses twice keeps its index at snapshots."""
    tolerance = follower.tracer.tolerance
    low, high = max(part.low - tolerance, follower.at[0]), min(part.high + tolerance, follower.at[-1])
    passing = [one for one in follower.tracks if one is not track and one.covers(low) and one.covers(high)]
    size = float(magnitude(part.node.state[None]))
    apart = [float((one.interpolated(part.node.at) - part.node.state).norm()) / size for one in passing]
    if not passing or min(apart) > NEAR:
        return False
    nearest = passing[apart.index(min(apart))]
    if any(before.at <= high and after.at >= low for before, after in nearest.crossings):
        return False
    start = follower.place_of(nearest.nearest(low))
    way = None if start is None else follower.tracer.advance(start, low)
    way = follower.tracer.advance(way.end, high) if way is not None and way.arrived else None
    if way is None or not way.arrived:
        return False
    nearest.crossings += [follower.sides(crossing, 1) for crossing in way.crossings]
    nearest.nodes += [follower.node(place) for place in way.passed] if way.crossings else []
    return bool(way.crossings)


def _look_near(follower: Follower, part: Happening) -> bool:
    """Points near a singular place that lie on no known branch."""
    new = False
    for node in (part.node, part.after):
        place = None if node is None else follower.place_of(node)
        if place is None or place.index == 0:
            continue
        system = follower.tracer.system(place.at)
        found = find_fixed_points(system, partners(system, place), solver=Corrector())
        for point in range(len(found)):
            other = follower.tracer.place(place.at, found, point)
            near = (other.state - place.state).norm() <= NEAR * magnitude(place.state[None])
            if near and other.index and not torch.equal(other.state, place.state):
                new = admit(follower, other) is not None or new
    return new


def _look_round(follower: Follower, part: Happening, track: Track, links: list[tuple[Track, Track]]) -> bool:
    """Follow a branch round the bend at its end: to the partner of a fold, or on, if it only bends."""
    end = track.died if part.kind == "vanished" else track.born
    here = None if end is None or end.place is not part.node else follower.place_of(part.node)
    if here is None:
        return False
    direction = 1 if part.kind == "vanished" else -1
    other = round_the_bend(follower.tracer, here, direction, (follower.at[0], follower.at[-1]))
    if other is None:
        return False
    if other.at != here.at:
        more = go_on(follower, track, other, direction) if other.index == here.index else None
        if more is not None:
            links[:] = [(track if a is more else a, track if b is more else b) for a, b in links]
        return more is not None
    if other.index == here.index:
        return False  # through the fork from prong to prong
    partner = owner(follower, other) or admit(follower, other)
    if partner is None or partner is track:
        return False
    links.append((track, partner))
    return True
