"""Branches while they are followed: the work of `follow`, snapshot by snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from torch import Generator, Tensor
from tqdm import tqdm

from mnemoscope.analysis.catalogue import magnitude
from mnemoscope.analysis.dynamics import Dynamics
from mnemoscope.analysis.fixed_points import FixedPoints, Status
from mnemoscope.analysis.portraits.leading import DENSE, leading_eigenvalues
from mnemoscope.analysis.portraits.tracing import Corrector, Crossing, Place, Tracer, Way, weakest
from mnemoscope.analysis.search import find_fixed_points
from mnemoscope.analysis.starts import Adaptive, StartStrategy
from mnemoscope.cells import State
from mnemoscope.shapes import Float

Given = State | StartStrategy | Callable[[float], Tensor] | Literal["adaptive"]
SAME = 1e-5
"""Converged states closer than this (rms, relative to states larger than 1) are the same point."""
NUDGE = 1.3
"""How many tolerances a snapshot is moved from a bifurcation."""


@dataclass(frozen=True, eq=False)
class Node:
    """A branch at one parameter."""

    at: float
    state: Float[Tensor, " size"]
    index: int
    q: float
    snapshot: int
    """Which of the snapshots, or -1 for a place between two."""
    unstable: int
    """Unstable directions, or -1 where they were not counted."""
    eigenvalues: np.ndarray | None


@dataclass(frozen=True)
class End:
    """A branch has a point at `there` and none at `beyond`; the nearest place on it."""

    there: float
    beyond: float
    place: Node


@dataclass(eq=False)
class Track:
    """One branch, as it grows."""

    nodes: list[Node] = field(default_factory=list)
    born: End | None = None
    died: End | None = None
    crossings: list[tuple[Node, Node]] = field(default_factory=list)

    def at_snapshot(self, snapshot: int) -> Node | None:
        return next((node for node in self.nodes if node.snapshot == snapshot), None)


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
        self.tracer, self.at, self.starts = tracer, list(at), starts
        self.number, self.counted, self.seed, self.progress = number, counted, seed, progress
        self.tracks: list[Track] = []
        self.notes: list[str] = []
        self.bounded: list[bool] = []
        self._alive: dict[int, Place] = {}  # by track, at the latest snapshot

    def run(self) -> None:
        found = self._regular_search(0, lambda to: [])
        for point in range(len(found)):
            place = self.tracer.place(self.at[0], found, point)
            if self._degenerate(place):
                continue
            self._alive[len(self.tracks)] = place
            self.tracks.append(Track([self.node(place, 0)]))
        for snapshot in tqdm(range(1, len(self.at)), desc="snapshots", disable=not self.progress):
            self._onwards(snapshot)

    def node(self, place: Place, snapshot: int = -1, count: bool = False) -> Node:
        """A place on a branch; eigenvalues only where they are asked for or cost little."""
        count = count or len(place.state) <= DENSE or (snapshot >= 0 and self.counted[snapshot])
        values, up = None, -1
        if count:
            system = self.tracer.system(place.at)
            values, up = leading_eigenvalues(place.jacobian, system.continuous)
            values = values[: self.number]
        return Node(place.at, place.state, place.index, place.q, snapshot, up, values)

    def place_of(self, node: Node) -> Place | None:
        """The place again, with its factors."""
        found = find_fixed_points(self.tracer.system(node.at), node.state[None], solver=Corrector())
        return self.tracer.place(node.at, found, 0) if len(found) else None

    def admit(self, place: Place) -> bool:
        """Follow a point found between snapshots both ways; False if it lies on a known branch."""
        if any(self._passes(track, place) for track in self.tracks if all(node.snapshot < 0 for node in track.nodes)):
            return False
        after = int(np.searchsorted(self.at, place.at, side="left"))
        before = int(np.searchsorted(self.at, place.at, side="right")) - 1
        track = Track([self.node(place, count=True)])
        if self._lead(track, place, after, 1) is not None:
            return False
        if after == before and track.at_snapshot(after) is None:
            return False
        older = self._lead(track, place, before, -1)
        if older is not None and not self._join(older, track, before):
            return False
        if older is None:
            self.tracks.append(track)
        return True

    def _regular_search(self, snapshot: int, predicted: Callable[[float], list[Tensor]]) -> FixedPoints:
        """All points at a snapshot. At a bifurcation there is no telling who is who: then a little beside it."""
        at = self.at[snapshot]
        found = self._search(snapshot, predicted(at))
        if found.regular is not None and not bool(found.regular.all()):
            inwards = -1 if snapshot == len(self.at) - 1 else 1
            room = abs(self.at[snapshot + inwards] - at) / 3  # the snapshots stay in order
            self.at[snapshot] = at + inwards * min(NUDGE * self.tracer.tolerance, room)
            beside = self._search(snapshot, predicted(self.at[snapshot]))
            if beside.regular is not None and bool(beside.regular.all()):
                found = beside
                self.notes.append(
                    f"At {at:g} a point is degenerate: the snapshot lies at a bifurcation. It was taken a little "
                    f"beside it, at {self.at[snapshot]:.10g}."
                )
            else:
                self.at[snapshot] = at
        self.bounded.append(found.bounded)
        return found

    def _search(self, snapshot: int, predicted: list[Tensor]) -> FixedPoints:
        """All points from predictions, in their order, and from fresh starts."""
        system = self.tracer.system(self.at[snapshot])
        generator = Generator().manual_seed(self.seed + snapshot)
        starts = self.starts
        if callable(starts) and not isinstance(starts, StartStrategy):
            starts = starts(self.at[snapshot])
        if isinstance(starts, str):
            starts = Adaptive()
        if not isinstance(starts, Adaptive):
            starts = Adaptive(initial=starts)
        drawn = starts.draw(system, generator)
        initial = torch.cat([torch.stack(predicted), drawn]) if predicted else drawn
        return find_fixed_points(system, replace(starts, initial=initial), seed=self.seed + snapshot)

    def _onwards(self, snapshot: int) -> None:
        """From one snapshot to the next."""
        alive, self._alive = self._alive, {}
        found = self._regular_search(snapshot, lambda to: [self._guess(place, to)[1] for place in alive.values()])
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
            root = self._which(way.end.state, found.states)
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
        older = self._lead(track, place, snapshot - 1, -1)
        if older is None:
            self._alive[len(self.tracks)] = place
            self.tracks.append(track)
        elif self._join(older, track, snapshot - 1):
            self._alive[self.tracks.index(older)] = place
        else:
            self._alive[len(self.tracks)] = place
            self._collide(track, len(self.tracks), self.tracks.index(older), snapshot, backwards=True)
            self.tracks.append(track)

    def _lead(self, track: Track, place: Place, snapshot: int, direction: int) -> Track | None:
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
            track.crossings.append(self._sides(crossing, direction))
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

    def _sides(self, crossing: Crossing, direction: int) -> tuple[Node, Node]:
        sides = self.node(crossing.before, count=True), self.node(crossing.after, count=True)
        return sides if direction > 0 else (sides[1], sides[0])

    def _join(self, older: Track, track: Track, snapshot: int) -> bool:
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
            if node is not None and self._which(state, node.state[None]) == 0:
                return track
        return None

    def _passes(self, track: Track, place: Place) -> bool:
        """Whether a branch leads through a place: one that no snapshot knows can be told by following it alone."""
        nearest = min(track.nodes, key=lambda node: abs(node.at - place.at))
        within = min(node.at for node in track.nodes) <= place.at <= max(node.at for node in track.nodes)
        if not within and abs(nearest.at - place.at) > 2 * self.tracer.tolerance:
            return False
        start = self.place_of(nearest)
        way = None if start is None else self.tracer.advance(start, place.at)
        return way is not None and way.arrived and self._which(place.state, way.end.state[None]) == 0

    def _which(self, state: Tensor, states: Tensor) -> int:
        """Which of these states it is, or -1."""
        if not len(states):
            return -1
        apart = (states - state).norm(dim=1)
        nearest = int(apart.argmin())
        return nearest if float(apart[nearest]) <= SAME * float(magnitude(state[None])) else -1


def partners(system: Dynamics, place: Place) -> Float[Tensor, "starts size"]:
    """Where other points may lie near a singular place: along its weakest direction v.

    There `w^T r(x + t v) = s t + c t^2 + ...` has its second zero at t = -s / c; a pitchfork, whose c is 0, has two
    more on both sides at a distance that the cubic term tells; a ladder of distances stands for it.
    """
    w, v, s = weakest(place)
    size = float(magnitude(place.state[None]))
    small = 1e-3 * size
    with torch.no_grad():
        sides = system.residual(torch.stack([place.state + small * v, place.state - small * v, place.state]))
    c = float(w @ (sides[0] + sides[1] - 2 * sides[2])) / (2 * small**2)
    lengths = [sign * step * size for step in (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3) for sign in (1, -1)]
    if abs(s) < abs(c) * size:
        lengths = [-s / c, *lengths]
    return system.clamp(torch.stack([place.state + length * v for length in lengths]))
