"""Trials, and the epochs that they consist of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Int
from mnemoscope.base.trial_table import Epoch, TrialTable
from mnemoscope.tasks.task import Batch


class Trials(NamedTuple):
    """Trials of a task: the batch that a network sees, and a table of their conditions and epochs."""

    batch: Batch
    table: TrialTable

    @property
    def lengths(self) -> Int[Tensor, " trials"]:
        """Number of steps of each trial; what follows in the batch is padding."""
        assert self.table.lengths is not None
        return self.table.lengths


@dataclass(frozen=True)
class Timeline:
    """Consecutive epochs of trials, whose numbers of steps may differ between trials."""

    steps: Mapping[str, Int[Tensor, " trials"]]
    """Number of steps in each trial, by the name of the epoch, in the order in which the epochs follow."""

    @cached_property
    def epochs(self) -> dict[str, Epoch]:
        """The epochs by name."""
        epochs, start = {}, torch.zeros_like(next(iter(self.steps.values())))
        for name, length in self.steps.items():
            epochs[name] = Epoch(name, start, start + length)
            start = start + length
        return epochs

    @property
    def time(self) -> int:
        """Number of steps of the longest trial."""
        return int(next(reversed(self.epochs.values())).stops.max())

    @property
    def trials(self) -> int:
        """Number of trials."""
        return len(next(iter(self.steps.values())))

    def during(self, *names: str) -> Bool[Tensor, "time trials"]:
        """Return which steps belong to one of these epochs."""
        return torch.stack([self.epochs[name].steps(self.time) for name in names]).any(0)

    def since(self, name: str) -> Int[Tensor, "time trials"]:
        """Return the number of steps since the epoch began, at each step; negative before."""
        return torch.arange(self.time).unsqueeze(1) - self.epochs[name].starts


def last_counted(mask: Bool[Tensor, "time batch"]) -> Tensor:
    """Return the last counted step of each sequence."""
    return (torch.arange(len(mask), device=mask.device).unsqueeze(1) * mask).amax(0)
