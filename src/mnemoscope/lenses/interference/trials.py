"""Trials of recall: inputs, the class that is due at each query, and the step at which its value was shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Int, Num
from mnemoscope.base.validation import check_whole


class RecallTrials(NamedTuple):
    """Sequences that store pairs and ask for some of their values, time first.

    The sequences are aligned: a step stores a pair in all of them, or in none. A task with a fixed number of pairs,
    such as `KeyValueRecall(...).at(32)`, draws them so.
    """

    inputs: Num[Tensor, "time batch ..."]
    """Features, or the numbers of tokens if the model embeds them."""
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


def checked_trials(trials: Any) -> dict[int, RecallTrials]:
    """Return the trials in increasing order of the number of pairs; raise if they are none, or if a query precedes its
    value.
    """
    _check_kinds(trials)
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


def _check_kinds(trials: Any) -> None:
    """Raise unless the trials are given by their number of pairs, as tensors of the same steps and sequences."""
    remedy = "pass {16: RecallTrials(inputs, targets, sources)}"
    if not isinstance(trials, Mapping):
        raise TypeError(
            f"Trials are given by the number of pairs that they store, but a {type(trials).__name__} was given: "
            f"{remedy}."
        )
    for pairs, given in trials.items():
        if not isinstance(given, RecallTrials):
            raise TypeError(
                f"Trials of {pairs} pairs must be RecallTrials, which know the step of each value, but a "
                f"{type(given).__name__} was given: {remedy}. The task key-value-recall has the sources of a batch, "
                f"task.sources(batch)."
            )
        wrong = [type(part).__name__ for part in given if not isinstance(part, Tensor)]
        if wrong:
            raise TypeError(f"RecallTrials of {pairs} pairs hold tensors, but a {wrong[0]} was given.")
        shapes = [tuple(part.shape) for part in given]
        whole = not (given.targets.is_floating_point() or given.sources.is_floating_point())
        if len(shapes[0]) < 2 or not shapes[0][:2] == shapes[1] == shapes[2] or not whole:
            raise ValueError(
                f"RecallTrials of {pairs} pairs need inputs (time, batch, ...), and targets and sources of whole "
                f"numbers (time, batch), but their shapes are {', '.join(map(str, shapes))} and their dtypes "
                f"{', '.join(str(part.dtype) for part in given)}."
            )
