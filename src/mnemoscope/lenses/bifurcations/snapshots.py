"""Search for all fixed points at each snapshot, from predictions and fresh starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Generator, Tensor

from mnemoscope.cells import State
from mnemoscope.lenses.bifurcations.predictor_corrector import PredictorCorrector
from mnemoscope.lenses.fixed_points.composite_starts import Adaptive
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.fixed_points.starts import StartStrategy

StartsAt = State | StartStrategy | Callable[[float], Tensor] | Literal["adaptive"]
"""Starts of a search: states, a strategy, or a function that returns states for a parameter."""
SHIFT = 1.3
"""Distance in tolerances by which a snapshot is moved away from a bifurcation."""


@dataclass
class SnapshotSearch:
    """Searches the fixed points at the snapshots. A snapshot at a bifurcation is moved a little."""

    continuation: PredictorCorrector
    parameters: list[float]
    """Parameters of the snapshots."""
    starts: StartsAt
    seed: int
    bounded: list[bool] = field(default_factory=list)
    """Whether the system at each searched snapshot is known to map a box into itself."""
    notes: list[str] = field(default_factory=list)

    def search(self, snapshot: int, predict: Callable[[float], list[Tensor]]) -> FixedPoints:
        """Return all points at a snapshot, or next to it at a bifurcation; `predict` returns states to start from."""
        at = self.parameters[snapshot]
        found = self._search(snapshot, predict(at))
        if found.regular is not None and not bool(found.regular.all()):
            inwards = -1 if snapshot == len(self.parameters) - 1 else 1
            room = abs(self.parameters[snapshot + inwards] - at) / 3  # the snapshots stay in order
            self.parameters[snapshot] = at + inwards * min(SHIFT * self.continuation.tolerance, room)
            shifted = self._search(snapshot, predict(self.parameters[snapshot]))
            if shifted.regular is not None and bool(shifted.regular.all()):
                found = shifted
                self.notes.append(
                    f"At {at:g} a point is degenerate: the snapshot lies at a bifurcation. It was moved to "
                    f"{self.parameters[snapshot]:.10g}."
                )
            else:
                self.parameters[snapshot] = at
        self.bounded.append(found.bounded)
        return found

    def _search(self, snapshot: int, predicted: list[Tensor]) -> FixedPoints:
        """Search from predictions, in their order, and from fresh starts."""
        system = self.continuation.system(self.parameters[snapshot])
        generator = Generator().manual_seed(self.seed + snapshot)
        starts = self.starts
        if callable(starts) and not isinstance(starts, StartStrategy):
            starts = starts(self.parameters[snapshot])
        if isinstance(starts, str):
            starts = Adaptive()
        if not isinstance(starts, Adaptive):
            starts = Adaptive(initial=starts)
        drawn = starts.draw(system, generator)
        initial = torch.cat([torch.stack(predicted), drawn]) if predicted else drawn
        return find_fixed_points(system, replace(starts, initial=initial), seed=self.seed + snapshot)
