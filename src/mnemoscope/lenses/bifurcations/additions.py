"""Points that turn up between snapshots: whose branch they are on, and branches that they add or continue."""

from __future__ import annotations

import numpy as np

from mnemoscope.lenses.bifurcations.branch_tracker import Follower
from mnemoscope.lenses.bifurcations.branches import Track, which
from mnemoscope.lenses.bifurcations.continuation_points import Place

CANDIDATES = 3
"""Of the branches that may lead through a place, so many are followed there: those that pass nearest to it."""
SLACK = 4.0
"""A branch that begins within so many tolerances of where another goes on is the rest of it."""


def owner(follower: Follower, place: Place) -> Track | None:
    """The branch that leads through a place."""
    slack = 2 * follower.tracer.tolerance
    near = [track for track in follower.tracks if track.covers(place.at, slack)]
    state = place.state.cpu()
    near.sort(key=lambda track: float((track.interpolated(place.at) - state).norm()))
    return next((track for track in near[:CANDIDATES] if _passes(follower, track, place)), None)


def admit(follower: Follower, place: Place) -> Track | None:
    """Follow a point found between snapshots both ways; None if it lies on a known branch."""
    if owner(follower, place) is not None:
        return None
    before, after = _snapshots_beside(follower, place.at)
    track = Track([follower.node(place, count=True)])
    if follower.lead(track, place, after, 1) is not None:
        return None
    if after == before and track.at_snapshot(after) is None:
        return None
    older = follower.lead(track, place, before, -1)
    if older is None:
        follower.tracks.append(track)
        return track
    return older if follower.join(older, track, before) else None


def go_on(follower: Follower, track: Track, place: Place, direction: int) -> Track | None:
    """Let a branch that seemed to end go on from a place beyond.

    Returns the branch that is part of it from now on, or None where another one leads through the place.
    """
    more = owner(follower, place)
    if more is None:
        more = Track([follower.node(place, count=True)])
        before, after = _snapshots_beside(follower, place.at)
        if follower.lead(more, place, after if direction > 0 else before, direction) is not None:
            return None
    else:
        begins = more.born if direction > 0 else more.died
        if more is track or begins is None or abs(begins.there - place.at) > SLACK * follower.tracer.tolerance:
            return None
    track.nodes += more.nodes
    track.crossings += more.crossings
    if direction > 0:
        track.died = more.died
    else:
        track.born = more.born
    follower.tracks = [one for one in follower.tracks if one is not more]
    return more


def _snapshots_beside(follower: Follower, at: float) -> tuple[int, int]:
    """The snapshots before and after a parameter; the same one twice where it lies at one."""
    at_or_after = int(np.searchsorted(follower.at, at, side="left"))
    return int(np.searchsorted(follower.at, at, side="right")) - 1, at_or_after


def _passes(follower: Follower, track: Track, place: Place) -> bool:
    """Whether a branch leads through a place: told by following it there, or the place back to it.

    Near a fold, steps away from it succeed where those towards it do not.
    """
    start = follower.place_of(track.nearest(place.at))
    return start is not None and (_leads(follower, start, place) or _leads(follower, place, start))


def _leads(follower: Follower, start: Place, end: Place) -> bool:
    way = follower.tracer.advance(start, end.at)
    return way.arrived and which(end.state, way.end.state[None]) == 0
