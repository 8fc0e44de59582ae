"""Branches of fixed points while they are tracked: their points, their ends, and whether two points are one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude

SAME = 1e-5
"""Distance below which converged states are the same point (rms, relative to states larger than 1)."""


@dataclass(frozen=True, eq=False)
class BranchPoint:
    """A point of a branch; its tensors are on the CPU."""

    at: float
    """The parameter."""
    state: Float[Tensor, " size"]
    index: int
    q: float
    snapshot: int
    """Number of the snapshot, or -1 between two."""
    unstable: int
    """Number of unstable directions, or -1 if not counted."""
    eigenvalues: np.ndarray | None
    """Leading eigenvalues, or None if not computed."""


@dataclass(frozen=True)
class BranchEnd:
    """An end of a branch, bracketed by a parameter with a point and one without."""

    inside: float
    """Last parameter at which the branch has a point."""
    outside: float
    """First parameter at which it has none."""
    point: BranchPoint
    """The nearest point of the branch."""


@dataclass(eq=False)
class TrackedBranch:
    """One branch while it grows."""

    points: list[BranchPoint] = field(default_factory=list)
    ends: dict[int, BranchEnd] = field(default_factory=dict)
    """The birth (-1) and the death (1), by their direction in the parameter; absent where the branch continues."""
    crossings: list[tuple[BranchPoint, BranchPoint]] = field(default_factory=list)
    """Points before and after each crossing of +1."""

    def replace_end(self, direction: int, other: TrackedBranch) -> None:
        """End as another branch does in a direction, or continue if the other does."""
        self.ends.pop(direction, None)
        if direction in other.ends:
            self.ends[direction] = other.ends[direction]

    def at_snapshot(self, snapshot: int) -> BranchPoint | None:
        """Return the point at a snapshot, if there is one."""
        return next((point for point in self.points if point.snapshot == snapshot), None)

    def nearest(self, at: float) -> BranchPoint:
        """Return the point nearest to a parameter."""
        return min(self.points, key=lambda point: abs(point.at - at))

    def covers(self, at: float, slack: float = 0.0) -> bool:
        """Return whether a parameter lies in the range of the branch, extended by `slack` on both sides."""
        parameters = [point.at for point in self.points]
        return min(parameters) - slack <= at <= max(parameters) + slack

    def interpolated(self, at: float) -> Float[Tensor, " size"]:
        """Return the linearly interpolated state at a parameter, or the nearest state outside the range."""
        before = max((point for point in self.points if point.at <= at), key=lambda point: point.at, default=None)
        after = min((point for point in self.points if point.at >= at), key=lambda point: point.at, default=None)
        if before is None or after is None or before.at == after.at:
            return self.nearest(at).state
        return torch.lerp(before.state, after.state, (at - before.at) / (after.at - before.at))


def matching_state(state: Float[Tensor, " size"], states: Float[Tensor, "points size"]) -> int:
    """Return which of the states is the same point, or -1."""
    if not len(states):
        return -1
    state = state.to(states.device)
    apart = (states - state).norm(dim=1)
    nearest = int(apart.argmin())
    return nearest if float(apart[nearest]) <= SAME * float(magnitude(state[None])) else -1
