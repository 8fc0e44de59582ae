"""How the activity of a recording is prepared: divided by ranges, reduced to shared components, and split in folds."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.seeds import seeded_generator


def unit_ranges(means: Float[Tensor, "steps units"], soften: float) -> Float[Tensor, " units"]:
    """Return the range of the means of each unit plus a constant; NaN does not count."""
    low, high = (means.nan_to_num(nan=fill) for fill in (torch.inf, -torch.inf))
    ranges = high.amax(0) - low.amin(0) + soften
    if not bool((ranges > 0).all()):
        raise ValueError(
            f"Unit {int((ranges <= 0).nonzero()[0])} has the same mean activity at all steps: pass soften=..., or "
            f"leave it out with select(...)."
        )
    return ranges


def first_components(activity: Float[Tensor, "time trials units"], number: int) -> Float[Tensor, "time trials units"]:
    """Return the activity that its first principal components over all steps and trials reconstruct.

    Steps after the end of a trial stay NaN; units that are missing within a trial are refused.
    """
    units = activity.shape[2]
    if number > units:
        raise ValueError(f"{units} units have {units} components at most, but {number} were asked for.")
    present = ~activity.isnan().all(2)
    rows = activity[present]
    if bool(rows.isnan().any()):
        raise ValueError("Components need all units together, but some are missing: use recording.complete() first.")
    centre = rows.mean(0)
    axes = torch.linalg.svd(rows - centre, full_matrices=False)[2][:number]
    reduced = torch.full_like(activity, torch.nan)
    reduced[present] = (rows - centre) @ axes.T @ axes + centre
    return reduced


def fold_of_trials(
    trials: int, groups: Iterable[Int[Tensor, " members"]], number: int, seed: int
) -> Int[Tensor, " trials"]:
    """Return the fold of each trial, such that every group of trials is divided as evenly as possible."""
    generator = seeded_generator(seed)
    place, first = torch.full((trials,), -1), 0
    for members in groups:
        order = members[torch.randperm(len(members), generator=generator)]
        place[order] = (torch.arange(len(members)) + first) % number
        first += len(members)  # small groups do not all fill the first folds
    rest = (place < 0).nonzero().flatten()  # trials without a value of a condition
    place[rest] = (torch.arange(len(rest)) + first) % number
    return place
