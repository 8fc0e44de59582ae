"""The first and the last fixed points of a training at the published gain, where the reservoir is chaotic at first.

Fixed points cannot be tracked from a chaotic state, which has far too many of them. Therefore they are searched before
and after the training only. An index sum other than 1 gives the least number of points that a search has missed.
"""

from __future__ import annotations

from typing import Any

import torch

from mnemoscope.lenses import Dynamics, find_fixed_points
from mnemoscope.lenses.fixed_points.composite_starts import Several
from mnemoscope.studies.jang.homoclinic import origin_modes
from mnemoscope.studies.jang.reservoirs import Recipe, TrainedReservoir, measure_memories
from mnemoscope.studies.jang.search import search_reservoir

SIZES = (0.03, 0.1, 0.3, 1.0, 3.0)
"""Standard deviations of the random states from which the search before the training starts."""
STATES = 6
"""Random states of each size."""
STARTS = 200
"""Starts of the search after the training."""


def measure_ends(trained: TrainedReservoir, recipe: Recipe, seed: int, progress: bool) -> dict[str, Any]:
    """Search for fixed points before and after a training, and count unstable directions of the origin between."""
    before = Dynamics(trained.at(0))
    generator = torch.Generator().manual_seed(seed)
    states = torch.cat([size * torch.randn(STATES, recipe.units, generator=generator).double() for size in SIZES])
    first = find_fixed_points(before, Several([before.origin, states]), seed=seed, progress=progress)
    memories = measure_memories(trained.cell, recipe)
    last = search_reservoir(trained.cell, recipe.test(seed).inputs, memories.states, STARTS, seed, progress)
    return {
        "points_before": len(first),
        "missing_before": abs(1 - first.index_sum),
        "stable_before": int((first.unstable == 0).sum()),
        "origin": {str(step): _unstable_directions(trained, step) for step in trained.snapshots},
        "points_after": len(last),
        "stable_after": int((last.unstable == 0).sum()),
        "held": int(memories.held.sum()),
    }


def _unstable_directions(trained: TrainedReservoir, step: int) -> int:
    return int((origin_modes(trained.at(step))[0].real > 0).sum())
