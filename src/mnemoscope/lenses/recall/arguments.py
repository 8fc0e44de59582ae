"""Checked arguments of the lenses on episodic memories."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import EpisodicMemory


def frozen_copy(memory: EpisodicMemory) -> EpisodicMemory:
    """Return a constant float64 copy of an episodic memory; raise on anything else."""
    if not isinstance(memory, EpisodicMemory):
        raise TypeError(f"An EpisodicMemory is expected, but a {type(memory).__name__} was given.")
    copy = memory.frozen(torch.float64)
    assert isinstance(copy, EpisodicMemory)
    return copy


def initial_features(memory: EpisodicMemory, start: int | Tensor) -> Float[Tensor, "batch features"]:
    """Return V_f of a start: the given tensor, or a column of Xi scaled to a mean square of 1."""
    if isinstance(start, Tensor):
        if start.dim() != 2 or start.shape[1] != memory.features or len(start) == 0:
            raise ValueError(
                f"A start is the number of a memory, or V_f of shape (batch, {memory.features}), but has shape "
                f"{tuple(start.shape)}."
            )
        if not start.is_floating_point() or not torch.isfinite(start).all():
            raise ValueError("V_f at the start must be real and finite.")
        return start.detach().to(memory.Xi)
    if isinstance(start, bool) or not isinstance(start, int) or not 0 <= start < memory.memories:
        raise ValueError(f"There are {memory.memories} memories, 0 to {memory.memories - 1}, but start is {start!r}.")
    column = memory.Xi[:, start]
    size = column.square().mean().sqrt()
    if size == 0:
        raise ValueError(f"Memory {start} is empty: its column of Xi is 0.")
    return (column / size).unsqueeze(0)
