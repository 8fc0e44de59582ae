"""Branches while they are followed: the work of `track_fixed_points`, snapshot by snapshot."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from mnemoscope.base.progress import Bar
from mnemoscope.lenses.bifurcations.branches import End, Node, Track, which
from mnemoscope.lenses.bifurcations.continuation_points import Crossing, Place, Way
from mnemoscope.lenses.bifurcations.leading import DENSE
from mnemoscope.lenses.bifurcations.snapshots import Given, Snapshots
from mnemoscope.lenses.bifurcations.tracing import Tracer
from mnemoscope.lenses.fixed_points.result import Status


class Follower:
    """Follows all points of a family from snapshot to snapshot, forwards and, where new ones appear, backwards."""

    def __init__(
        self,
        tracer: Tracer,
        at: tuple[float, ...],
        starts: Given,
        *,
        number: int,
        counted: tuple[bool, ...],
        seed: int,
        progress: bool,
    ) -> None:
        self.tracer = tracer
        self.snapshots = Snapshots(tracer, list(at), starts, seed)
        self.at, self.notes, self.bounded = self.snapshots.at, self.snapshots.notes, self.snapshots.bounded
        self.number, self.counted, self.progress = number, counted, progress
        self.tracks: list[Track] = []
        self._alive: dict[int, Place] = {}  # by track, at the latest snapshot

    def run(self) -> None:
        found = self.snapshots.search(0, lambda to: [])
        for point in range(len(found)):
            place = self.tracer.place(self.at[0], found, point)
            if self._degenerate(place):
                continue
            self._alive[len(self.tracks)] = place
            self.tracks.append(Track([self.node(place, 0)]))
        for snapshot in Bar(range(1, len(self.at)), desc="snapshots", disable=not self.progress):
            self._onwards(snapshot)

    def node(self, place: Place, snapshot: int = -1, count: bool = False) -> Node:
        """A place on a branch; eigenvalues only where they are asked for or cost little."""
        count = count or len(place.state) <= DENSE or (snapshot >= 0 and self.counted[snapshot])
        continuous = self.tracer.system(place.at).continuous
        return Node.of(place, snapshot, continuous=continuous, kept=self.number if count else 0)

    def place_of(self, node: Node) -> Place | None:
        """The place again, with its factors."""
        return self.tracer.corrected(node.at, node.state.to(self.tracer.system(node.at).device))

    def _onwards(self, snapshot: int) -> None:
        """From one snapshot to the next."""
        alive, self._alive = self._alive, {}
        found = self.snapshots.search(snapshot, lambda to: [self._guess(place, to)[1] for place in alive.values()])
        to = self.at[snapshot]
        guesses = {number: self._guess(place, to) for number, place in alive.items()}
        places: dict[int, Place] = {}

        def reached(root: int, here: Place | None = None) -> Place:
            if root not in places:
                places[root] = self.tracer.place(to, found, root)
            place = places[root]
            return place if here is None or place.index else replace(place, known=here.known)

        assert found.starts is not None
        aims = found.starts.point[: len(alive)].tolist()
        hit = (found.starts.status[: len(alive)] == int(Status.FIXED)).tolist()
        taken: dict[int, int] = {}
        astray = []
        for (number, here), aim, fixed in zip(alive.items(), aims, hit, strict=True):
            tangent = guesses[number][0]
            alone = fixed and sum(one == aim and ok for one, ok in zip(aims, hit, strict=True)) == 1
            new = reached(aim, here) if alone else None
            if new is None or new.index * here.known[1] < 0 or here.index == 0 or not (
                self.tracer.moderate(here, tangent) and self.tracer.believed(here, tangent, new)
                and self.tracer.smooth(here, new)
            ):  # fmt: skip
                astray.append(number)
                continue
            taken[aim] = number
            self._arrive(number, new, snapshot)
        for number in astray:
            way = self.tracer.advance(alive[number], to)
            self._walk(self.tracks[number], way, 1)
            if not way.arrived:
                continue
            root = which(way.end.state, found.states)
            if root in taken:
                self._collide(self.tracks[number], number, taken[root], snapshot)
                continue
            if root >= 0:
                taken[root] = number
            self._arrive(number, way.end, snapshot)
        for root in range(len(found)):
            if root not in taken:
                self._appear(reached(root), snapshot)

    def _guess(self, here: Place, to: float) -> tuple[Tensor, Tensor]:
        tangent, start = self.tracer.predict(here, to)
        usable = self.tracer.moderate(here, tangent) and bool(torch.isfinite(start).all())
        return tangent, start if usable else here.state

    def _arrive(self, number: int, place: Place, snapshot: int) -> None:
        self.tracks[number].nodes.append(self.node(place, snapshot))
        self._alive[number] = place

    def _appear(self, place: Place, snapshot: int) -> None:
        """A point that no branch led to: back to where it was born, or as far as it has always been."""
        if self._degenerate(place):
            return
        track = Track([self.node(place, snapshot)])
        older = self.lead(track, place, snapshot - 1, -1)
        if older is None:
            self._alive[len(self.tracks)] = place
            self.tracks.append(track)
        elif self.join(older, track, snapshot - 1):
            self._alive[self.tracks.index(older)] = place
        else:
            self._alive[len(self.tracks)] = place
            self._collide(track, len(self.tracks), self.tracks.index(older), snapshot, backwards=True)
            self.tracks.append(track)

    def lead(self, track: Track, place: Place, snapshot: int, direction: int) -> Track | None:
        """Follow a point from snapshot to snapshot until it is lost, or until it comes to a known branch."""
        while 0 <= snapshot < len(self.bounded):
            way = self.tracer.advance(place, self.at[snapshot])
            self._walk(track, way, direction)
            if not way.arrived:
                return None
            known = self._known(way.end.state, snapshot)
            if known is not None:
                return known
            place = way.end
            if place.at != track.nodes[-1].at or track.at_snapshot(snapshot) is None:
                track.nodes.append(self.node(place, snapshot))
            snapshot += direction
        return None

    def _walk(self, track: Track, way: Way, direction: int) -> None:
        """Note what lies on a way; its last place is left to the caller where it arrived."""
        track.nodes += [self.node(place) for place in (way.passed[1:-1] if way.arrived else way.passed[1:])]
        for crossing in way.crossings:
            track.crossings.append(self.sides(crossing, direction))
        if way.stuck:
            self.notes.append(
                f"A point was given up near {way.end.at:g} after too many short steps; where it ends is not known."
            )
        if not way.arrived:
            end = End(way.end.at, way.lost_at, self.node(way.end, count=True))
            if direction > 0:
                track.died = end
            else:
                track.born = end

    def sides(self, crossing: Crossing, direction: int) -> tuple[Node, Node]:
        """The places before and after a crossing, counted, in the order of the parameter."""
        sides = self.node(crossing.before, count=True), self.node(crossing.after, count=True)
        return sides if direction > 0 else (sides[1], sides[0])

    def join(self, older: Track, track: Track, snapshot: int) -> bool:
        """Join what was lost after a snapshot with what leads back to it."""
        if older.died is None or older.at_snapshot(snapshot + 1) is not None:
            return False
        older.nodes = [node for node in older.nodes if node.at <= self.at[snapshot]] + track.nodes
        older.crossings = [pair for pair in older.crossings if pair[1].at <= self.at[snapshot]] + track.crossings
        older.died = track.died
        return True

    def _collide(self, track: Track, number: int, other: int, snapshot: int, backwards: bool = False) -> None:
        """Two branches lead to one point, which cannot be: one of the ways is wrong."""
        here, there = self.at[snapshot - 1], self.at[snapshot]
        node = track.nodes[-1]
        if backwards:
            track.born = End(there, here, node)
        else:
            track.died = End(here, there, node)
        self.notes.append(
            f"Between {here:g} and {there:g} the ways of branches {number} and {other} run together; where branch "
            f"{number} {'begins' if backwards else 'ends'} is not known. Take snapshots nearer to each other."
        )

    def _degenerate(self, place: Place) -> bool:
        if place.index:
            return False
        self.notes.append(
            f"At {place.at:g} lies a degenerate point (a double one, or one of a line of points), which has no index "
            f"and is not followed."
        )
        return True

    def _known(self, state: Tensor, snapshot: int) -> Track | None:
        for track in self.tracks:
            node = track.at_snapshot(snapshot)
            if node is not None and which(state, node.state[None]) == 0:
                return track
        return None
