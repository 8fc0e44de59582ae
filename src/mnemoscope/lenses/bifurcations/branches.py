"""Branches of fixed points while they grow: their places, where they begin and end, and whether two are one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.bifurcations.continuation_points import Place
from mnemoscope.lenses.bifurcations.leading import leading_eigenvalues
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude

SAME = 1e-5
"""Converged states closer than this (rms, relative to states larger than 1) are the same point."""


@dataclass(frozen=True, eq=False)
class Node:
    """A branch at one parameter; its tensors lie on the CPU."""

    at: float
    state: Float[Tensor, " size"]
    index: int
    q: float
    snapshot: int
    """Which of the snapshots, or -1 for a place between two."""
    unstable: int
    """Unstable directions, or -1 where they were not counted."""
    eigenvalues: np.ndarray | None

    @classmethod
    def of(cls, place: Place, snapshot: int, *, continuous: bool, kept: int) -> Node:
        """A place with so many of its leading eigenvalues; with 0, none are computed."""
        values, up = leading_eigenvalues(place.jacobian, continuous) if kept else (None, -1)
        values = None if values is None else values[:kept]
        return cls(place.at, place.state.cpu(), place.index, place.q, snapshot, up, values)


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

    def nearest(self, at: float) -> Node:
        """The place nearest to a parameter."""
        return min(self.nodes, key=lambda node: abs(node.at - at))

    def covers(self, at: float, slack: float = 0.0) -> bool:
        """Whether it has places on both sides of a parameter, or one within the slack."""
        own = [node.at for node in self.nodes]
        return min(own) - slack <= at <= max(own) + slack

    def interpolated(self, at: float) -> Float[Tensor, " size"]:
        """The state on the straight line between the nearest places on either side."""
        before = max((node for node in self.nodes if node.at <= at), key=lambda node: node.at, default=None)
        after = min((node for node in self.nodes if node.at >= at), key=lambda node: node.at, default=None)
        if before is None or after is None or before.at == after.at:
            return self.nearest(at).state
        return torch.lerp(before.state, after.state, (at - before.at) / (after.at - before.at))


def which(state: Float[Tensor, " size"], states: Float[Tensor, "points size"]) -> int:
    """Which of these states it is, or -1."""
    if not len(states):
        return -1
    state = state.to(states.device)
    apart = (states - state).norm(dim=1)
    nearest = int(apart.argmin())
    return nearest if float(apart[nearest]) <= SAME * float(magnitude(state[None])) else -1
