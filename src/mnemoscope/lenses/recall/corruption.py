"""Corrupted starts: flip signs of a pattern, and follow the discrete map to its end."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import EpisodicMemory
from mnemoscope.lenses.recall.overlap import overlap_with, read_features

RETRIEVED = 0.95
"""Overlap above which a pattern counts as retrieved; if rates are all or nothing, 2.5% of its signs may be wrong."""


def final_overlaps(memory: EpisodicMemory, V_f: Tensor, steps: int) -> Float[Tensor, "starts memories"]:
    """Return the overlaps after `steps` steps of the map, or once the state is constant."""
    cell = memory.discrete()
    with torch.no_grad():
        nothing, step = cell.prepare(V_f.new_zeros(1, memory.features))
        for _ in range(steps):
            new = step(nothing, V_f)
            still = torch.equal(new, V_f)
            V_f = new
            if still:
                break
        return overlap_with(memory, read_features(memory, V_f))


def flip_signs(V_f: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Return V_f with `number` random signs of each row flipped."""
    chosen = torch.rand(V_f.shape, generator=generator).argsort(1)[:, :number]
    return V_f.scatter(1, chosen, -V_f.gather(1, chosen))


def half_crossing(places: Tensor, shares: Tensor) -> float | None:
    """Return the place at which the shares first fall below one half, by linear interpolation.

    It is None if they never do, or are below from the first place on.
    """
    below = (shares < 0.5).nonzero()[:, 0].tolist()
    if not below or below[0] == 0:
        return None
    after = below[0]
    fraction = (float(shares[after - 1]) - 0.5) / float(shares[after - 1] - shares[after])
    return float(places[after - 1] + fraction * (places[after] - places[after - 1]))
