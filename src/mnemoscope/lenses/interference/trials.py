"""Trials of recall: inputs, the class that is due at each query, and the step at which its value was shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.validation import check_whole


class RecallTrials(NamedTuple):
    """Sequences that store pairs and ask for some of their values, time first.

    The sequences are aligned: a step stores a pair in all of them, or in none. A task with a fixed number of pairs,
    such as `KeyValueRecall(...).at(32)`, draws them so.
    """

    inputs: Float[Tensor, "time batch features"]
    targets: Int[Tensor, "time batch"]
    """The class that is due at each query; any number elsewhere."""
    sources: Int[Tensor, "time batch"]
    """The step at which the value that is due was shown; -1 where nothing is due."""

    @property
    def asked(self) -> Bool[Tensor, "time batch"]:
        """Where a value is due."""
        return self.sources >= 0

    def query_steps(self) -> list[int]:
        """Return the steps at which any sequence asks for a value."""
        return self.asked.any(1).nonzero().flatten().tolist()


def checked_trials(trials: Mapping[int, RecallTrials]) -> dict[int, RecallTrials]:
    """Return the trials in increasing order of the number of pairs; raise if a query precedes its value."""
    if not trials:
        raise ValueError("Pass trials of at least one number of pairs: {16: RecallTrials(inputs, targets, sources)}.")
    sequences = {given.inputs.shape[1] for given in trials.values()}
    if len(sequences) != 1 or min(sequences) < 2:
        raise ValueError(
            f"Values are exchanged between sequences, of which every number of pairs needs the same number, at least "
            f"two, but they have {sorted(sequences)}."
        )
    for pairs, given in trials.items():
        check_whole(1, pairs=pairs)
        steps = torch.arange(len(given.sources), device=given.sources.device).unsqueeze(1)
        if not given.asked.any(0).all():
            raise ValueError(f"Every sequence must ask for a value, but one of those with {pairs} pairs does not.")
        if (given.sources >= steps).any():
            raise ValueError(f"A value is shown before it is asked for, but sources of {pairs} pairs name later steps.")
    return {pairs: trials[pairs] for pairs in sorted(trials)}
