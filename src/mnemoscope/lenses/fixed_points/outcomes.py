"""How a search for fixed points ended: the outcome of each start, and a proof that no point is missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.described_enum import DescribedEnum


class Status(DescribedEnum):
    """Outcome of a start, as the end of a sentence. Only FIXED starts contribute fixed points; all are reported."""

    FIXED = 0, "reached a fixed point"
    SLOW = 1, "ended at a slow point"
    STALLED = 2, "stalled at a local minimum of q that is not slow"
    UNFINISHED = 3, "ran out of steps or made no progress"
    OUTSIDE = 4, "stopped at the edge of the box on the way out"
    DIVERGED = 5, "diverged"


@dataclass(frozen=True)
class Starts:
    """The outcome of each start."""

    status: Int[Tensor, " starts"]
    """Values of `Status`."""
    point: Int[Tensor, " starts"]
    """Index of the fixed point reached (for SLOW starts: of the slow point), or -1."""
    q: Float[Tensor, " starts"]
    """q where the start ended; for a start merged into a known point, the q of that point."""
    steps: Int[Tensor, " starts"]
    """Solver steps taken."""

    def __len__(self) -> int:
        return self.status.shape[0]

    def counts(self) -> dict[Status, int]:
        """Return the number of starts by status, in the order of `Status`."""
        counted = Counter(self.status.tolist())
        return {status: counted[status] for status in Status if counted[status]}


@dataclass(frozen=True)
class Certificate:
    """A proof by interval arithmetic that no further fixed point lies in a box, as far as it could be completed.

    All operations round outwards, so that the proof holds for exact arithmetic with the given weights, provided that
    torch computes tanh and the logistic function to 8 units in the last place.
    """

    undecided: Float[Tensor, "boxes 2 size"]
    """Lower and upper corner of each part of the box that may contain further fixed points; none if it is complete."""
    examined: int
    """Number of parts of the box that were examined."""
    low: Float[Tensor, " size"]
    """Lower corner of the box."""
    high: Float[Tensor, " size"]
    """Upper corner of the box."""

    @property
    def complete(self) -> bool:
        """Whether the set of fixed points in the box is proved to be complete."""
        return len(self.undecided) == 0

    def __str__(self) -> str:
        if self.complete:
            return (
                f"Certified complete: interval arithmetic proves that the box holds no other fixed point "
                f"({self.examined} parts examined)."
            )
        low, high = self.undecided[:, 0].amin(0), self.undecided[:, 1].amax(0)
        sides = " x ".join(f"[{a:.3g}, {b:.3g}]" for a, b in zip(low.tolist(), high.tolist(), strict=True))
        parts = f"{len(self.undecided)} part{'s' * (len(self.undecided) > 1)} of the box"
        return (
            f"Not certified: the proof excludes further fixed points except in {parts}, all within {sides}; "
            f"degenerate or nearly degenerate points cannot be decided."
        )
