"""The lens on the speed of trajectories: kinematic analysis of conditions against a reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole
from mnemoscope.lenses.bootstrap import interval_of_draws
from mnemoscope.lenses.recording.result import Recording
from mnemoscope.lenses.traversal.kinematics import Kinematics, align_paths
from mnemoscope.lenses.traversal.result import Traversal

DRAWS = 200
"""Resamples of the trials."""


@show_slow("speed of trajectories")
def measure_speed(
    recording: Recording,
    condition: str,
    *,
    reference: float | None = None,
    components: int | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Traversal:
    """Measure how fast the mean trajectory of each condition is traversed (kinematic analysis; Remington et al. 2018).

    For every state of the reference trajectory, the nearest state on each other trajectory is found. The time at which
    that state is reached grows in proportion for a condition that moves along the same path at another speed, and the
    distance shows how far apart the paths are. Noise lengthens single steps more than it shifts these times.

    Args:
        recording: trials that are aligned at their first step, such as `recording.in_epoch("production")`.
        condition: name of the condition, such as an interval.
        reference: value of the condition whose trajectory is the reference; the middle one by default.
        components: number of principal components of the mean trajectories to which states are reduced, against noise;
            all numbers of the state by default.
        draws: resamples of the trials of each condition, for the intervals.
        seed: seed of the resamples.

    >>> import mnemoscope as ms
    >>> angle = torch.arange(40).double()[:, None] * torch.tensor([0.04, 0.02])  # the second is half as fast
    >>> circle = torch.stack([angle.cos(), angle.sin()], 2)
    >>> table = ms.TrialTable.of({"interval": [400, 800]})
    >>> found = ms.measure_speed(ms.Recording(circle, table), "interval", reference=400)
    >>> found.ratio.round(decimals=2).tolist()
    [1.0, 0.5]

    """
    column = recording.table[condition]
    levels = column.levels
    check_whole(1, draws=draws)
    if len(levels) < 2:
        raise ValueError(f"The condition {condition!r} has {len(levels)} value, but two or more are compared.")
    if reference is not None and reference not in levels:
        raise ValueError(f"The reference {reference!r} is no value of {condition!r}: {levels}.")
    chosen = levels.index(levels[len(levels) // 2] if reference is None else float(reference))
    groups = [(column.values == level).nonzero().flatten() for level in levels]
    activity = _reduced(recording.activity, groups, components)
    found = align_paths(_means(activity, groups), chosen)
    generator = seeded_generator(seed)
    resamples = [align_paths(_means(activity, _drawn(groups, generator)), chosen) for _ in range(draws)]
    several = torch.tensor([len(members) > 1 for members in groups])
    edges = {name: _edges(resamples, name, several) for name in ("speed", "aligned", "distance", "ratio")}
    return Traversal(
        condition=condition,
        names=tuple(column.label(level) for level in levels),
        levels=torch.tensor(levels, dtype=torch.float64),
        reference=chosen,
        **{name: torch.from_numpy(getattr(found, name)) for name in edges},
        **{f"{name}_low": low for name, (low, _) in edges.items()},
        **{f"{name}_high": high for name, (_, high) in edges.items()},
        scatter=_scatter(activity, groups, chosen, found),
        trials=torch.tensor([len(members) for members in groups]),
        step=recording.table.step,
    )


def _reduced(activity: Tensor, groups: list[Tensor], components: int | None) -> Tensor:
    """Return activity in the leading principal components of the mean trajectories."""
    if components is None:
        return activity
    check_whole(1, components=components)
    means = torch.from_numpy(_means(activity, groups)).flatten(0, 1)
    means = means[~means.isnan().any(1)]
    centre = means.mean(0)
    axes = torch.linalg.svd(means - centre, full_matrices=False).Vh[:components]
    return (activity - centre) @ axes.T


def _means(activity: Tensor, groups: list[Tensor]) -> np.ndarray:
    """Return the mean trajectory of each group (time, groups, size)."""
    return torch.stack([activity[:, members].nanmean(1) for members in groups], 1).numpy()


def _drawn(groups: list[Tensor], generator: torch.Generator) -> list[Tensor]:
    """Return as many trials of each group, drawn again with replacement."""
    return [members[torch.randint(len(members), (len(members),), generator=generator)] for members in groups]


def _edges(resamples: list[Kinematics], name: str, several: Tensor) -> tuple[Tensor, Tensor]:
    """Return the edges of the interval over resamples; NaN for a condition of a single trial."""
    drawn = torch.from_numpy(np.stack([getattr(resample, name) for resample in resamples]))
    low, high = (edge.masked_fill(~several, torch.nan) for edge in interval_of_draws(drawn))
    return low, high


def _scatter(activity: Tensor, groups: list[Tensor], reference: int, found: Any) -> Float[Tensor, "time conditions"]:
    """Return the distance that the scatter of trials alone produces between two means of the same expectation."""
    errors = []
    for members in groups:
        trials = activity[:, members]
        number = (~trials.isnan()).sum(1).double()
        spread = (trials - trials.nanmean(1, keepdim=True)).square().nansum(1) / (number - 1)
        errors.append((spread / number).sum(1))  # NaN for a single trial
    squares = torch.stack(errors, 1)  # (time, conditions)
    aligned = torch.from_numpy(found.aligned)
    there = squares.gather(0, aligned.nan_to_num().round().long())
    return (there + squares[:, reference : reference + 1]).sqrt().masked_fill(aligned.isnan(), torch.nan)
