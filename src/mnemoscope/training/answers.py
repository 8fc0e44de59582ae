"""The outputs of a model on a batch, read out at the steps that count where no other step matters."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.cells import Model, scan
from mnemoscope.cells.state import State
from mnemoscope.tasks import Batch, Task

MANY_OUTPUTS = 2**22
"""Outputs, as numbers, from which a CUDA graph reads out some steps alone; 4 million take 16 MB."""


class Answers(NamedTuple):
    """Outputs of a model, the batch to compare them with, and the state after the last step."""

    outputs: Tensor
    batch: Batch
    state: State


def answer(model: Model, batch: Batch, state: State | None, places: Int[Tensor, " places"] | None = None) -> Answers:
    """Run a model over a batch, read it out at some places, and return the outputs of `batch.at(places)`.

    With a vocabulary of thousands of tokens, a readout at every step would take most of the time. Where `places` is
    None, every step is read out.

    >>> from torch import nn
    >>> from mnemoscope.cells import GRU
    >>> from mnemoscope.tasks import Parity
    >>> task = Parity()
    >>> model, batch = Model(GRU(4, 8), task.output_size, nn.Embedding(task.input_size, 4)), task.batch(5, 0, 0)
    >>> answer(model, batch, None, read_places(task, batch)).outputs.shape
    torch.Size([1, 5, 3])
    """
    if places is None:
        outputs, state = model(batch.inputs, state)
        return Answers(outputs, batch, state)
    features, state = scan(model.cell, model.encode(batch.inputs), state)
    return Answers(model.readout(features.flatten(0, 1).index_select(0, places)).unsqueeze(0), batch.at(places), state)


def read_places(task: Task, batch: Batch, *, of_few_lengths: bool = False) -> Int[Tensor, " places"] | None:
    """Return the places at which a model is read out, or None for all: the counted steps of a pointwise task.

    A CUDA graph fixes all shapes. With `of_few_lengths`, places that do not count are therefore appended up to a power
    of two; and a batch of few outputs, whose readout takes little time, is read out everywhere.
    """
    if not task.pointwise:
        return None
    places = batch.places()
    if not of_few_lengths:
        return places
    steps, number = batch.mask.numel(), max(1, len(places))
    filled = 1 << (number - 1).bit_length()  # the next power of two
    if steps * task.output_size < MANY_OUTPUTS or filled >= steps:
        return None
    uncounted = batch.mask.flatten().int().argmin()
    return torch.cat([places, uncounted.expand(filled - len(places))])
