"""The state of an attentive cell: its slots for past states, and the policy that decides which states keep a slot."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.cells.state import State


class AttentiveState(NamedTuple):
    """State of a cell that attends to its past."""

    inner: State
    """State of the wrapped cell, with its h before attention."""
    s: Float[Tensor, "batch features"]
    """The macro-state: the cell reads it in place of h, and it is the output."""
    rows: Float[Tensor, "batch slots width"]
    """The past states that are kept, each with its key."""
    score: Float[Tensor, "batch slots"]
    """Relevance of the kept states. No output depends on it but through comparisons, so a scan returns it without a
    gradient; `scan(..., backend="loop")` returns it with that of the steps."""
    filled: Float[Tensor, "batch slots"]
    """1 where a slot holds a state, 0 where it is empty; a scan returns it without a gradient, as the score."""

    @property
    def output(self) -> Float[Tensor, "batch features"]:
        """Input of the readout."""
        return self.s


class Slots(NamedTuple):
    """Scores and occupancy of the slots, (batch, slots); each sequence of the batch has its own slots."""

    score: Float[Tensor, "batch slots"]
    """Relevance, at least 0."""
    filled: Float[Tensor, "batch slots"]
    """1 where a slot holds a state, 0 where it is empty."""

    @property
    def valid(self) -> Bool[Tensor, "batch slots"]:
        return self.filled > 0

    def detached(self) -> Slots:
        """Return the slots without gradients, for a scan: they only decide which states are kept."""
        return Slots(self.score.detach(), self.filled.detach())

    def with_newest(self, score: Float[Tensor, " batch"] | None = None) -> Slots:
        """Append a slot for the state of this step; its score is 0 by default."""
        scores = pad(self.score, (0, 1)) if score is None else torch.cat([self.score, score.unsqueeze(1)], dim=1)
        return Slots(scores, pad(self.filled, (0, 1), value=1.0))

    def select(self, source: Int[Tensor, "batch kept"]) -> Slots:
        """Return the slots with the indices `source`."""
        return Slots(self.score.gather(1, source), self.filled.gather(1, source))


class SlotPolicy:
    """Rule for which states keep a slot, and how their scores change. By default every state is kept.

    The policy sees scores only, never the states. So it serves both a step, whose slots hold states, and a scan, whose
    slots hold positions in a history.
    """

    def admit(self, slots: Slots) -> Int[Tensor, "batch slots"] | None:
        """Return the old slot that each new slot is copied from when a state enters, or None if all states stay.

        The entering state has the index after the last old slot.
        """
        return None

    def update_scores(self, slots: Slots, weights: Float[Tensor, "batch slots"]) -> Slots:
        """Return the slots with the scores after a step's attention `weights`."""
        return slots
