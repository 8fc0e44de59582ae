"""The variance of each unit between the trials of a task, averaged over time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.recording import ConditionGrid, Recording


def variance_between_trials(recording: Recording) -> Float[Tensor, " units"]:
    """Return the variance between trials at each step, averaged over steps; noise of single trials counts in full."""
    known = ~recording.activity.isnan()
    counts = known.sum(1)  # (time, units)
    values = recording.activity.nan_to_num()
    means = values.sum(1) / counts.clamp_min(1)
    squares = ((values - means.unsqueeze(1)) ** 2 * known).sum(1) / counts.clamp_min(1)
    return squares.masked_fill(counts < 2, torch.nan).nanmean(0)


def variance_between_conditions(recording: Recording, conditions: Sequence[str]) -> Float[Tensor, " units"]:
    """Return the variance between the means of conditions, averaged over steps, without the noise of their trials.

    A mean over n trials has the variance s^2 / n around its expectation, of which (1 - 1 / conditions) appears between
    the means. What remains can be slightly below 0 by chance, and is set to 0.
    """
    grid = ConditionGrid.of(recording, conditions).with_complete_steps(2)
    means, counts = grid.means(), grid.counts()
    squares = ((grid.activity - means[:, grid.cells]) ** 2).nan_to_num()
    members = torch.nn.functional.one_hot(grid.cells, grid.size).double()
    within = torch.einsum("ktu,tc->kcu", squares, members) / (counts - 1)
    between = means.var(1, correction=0)
    noise = (1 - 1 / grid.size) * (within / counts).mean(1)
    return (between - noise).mean(0).clamp_min(0)
