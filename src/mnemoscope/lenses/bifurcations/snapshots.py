"""The search at each snapshot: all its points, from predictions and fresh starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Generator, Tensor

from mnemoscope.cells import State
from mnemoscope.lenses.bifurcations.tracing import Tracer
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.fixed_points.starts import Adaptive, StartStrategy

Given = State | StartStrategy | Callable[[float], Tensor] | Literal["adaptive"]
NUDGE = 1.3
"""How many tolerances a snapshot is moved from a bifurcation."""


@dataclass
class Snapshots:
    """Where the family is looked at as a whole, and how. A snapshot that lies at a bifurcation is moved a little."""

    tracer: Tracer
    at: list[float]
    starts: Given
    seed: int
    bounded: list[bool] = field(default_factory=list)
    """Of the snapshots searched so far: whether a box is known that the system maps into itself."""
    notes: list[str] = field(default_factory=list)

    def search(self, snapshot: int, predicted: Callable[[float], list[Tensor]]) -> FixedPoints:
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
