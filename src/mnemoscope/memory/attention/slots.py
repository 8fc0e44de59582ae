"""Slots: places for past states, each with what is known of it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from mnemoscope.base.array_types import Bool, Float, Int


class Slots(NamedTuple):
    """What is known of each slot, (batch, slots); slots of one member of the batch differ from those of another."""

    score: Float[Tensor, "batch slots"]
    """Relevance, from 0 on."""
    filled: Float[Tensor, "batch slots"]
    """1 where there is a state, 0 where a slot is empty."""

    @property
    def valid(self) -> Bool[Tensor, "batch slots"]:
        return self.filled > 0

    def with_newest(self, score: Float[Tensor, " batch"] | None = None) -> Slots:
        """One more slot at the end, for the state of this step; its score is 0 unless it is given."""
        scores = pad(self.score, (0, 1)) if score is None else torch.cat([self.score, score.unsqueeze(1)], dim=1)
        return Slots(scores, pad(self.filled, (0, 1), value=1.0))

    def taken(self, source: Int[Tensor, "batch kept"]) -> Slots:
        """The slots at `source`."""
        return Slots(self.score.gather(1, source), self.filled.gather(1, source))
