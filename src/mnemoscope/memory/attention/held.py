"""The memory of one step: the past states are rows of the state. The slow, obvious way."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.state import State
from mnemoscope.memory.attention.alignment import Alignment
from mnemoscope.memory.attention.slots import Slots

if TYPE_CHECKING:
    from mnemoscope.memory.attention.past import Past


class AttentiveState(NamedTuple):
    """What an attentive cell knows."""

    inner: State
    """Of the cell itself, with its own h."""
    s: Float[Tensor, "batch features"]
    """The macro-state: what the cell reads in place of h, and what a readout sees."""
    rows: Float[Tensor, "batch slots width"]
    """The past states that are kept, each with its key."""
    score: Float[Tensor, "batch slots"]
    """Their relevance."""
    filled: Float[Tensor, "batch slots"]
    """1 where there is a state, 0 where a slot is empty."""

    @property
    def seen(self) -> Float[Tensor, "batch features"]:
        """What a readout sees."""
        return self.s


class Held:
    """Rows of a state, for one step."""

    present = None
    """Which members of the batch take this step: all of them, or a step cannot know."""

    def __init__(self, past: Past, alignment: Alignment, state: AttentiveState) -> None:
        self.past, self.alignment = past, alignment
        self.rows, self.slots = state.rows, Slots(state.score, state.filled)

    def carried(self, inner: State, s: Tensor) -> tuple[State, Tensor]:
        """The state that the step begins with."""
        return inner, s

    def store(self, row: Float[Tensor, "batch width"], score: Float[Tensor, " batch"] | None) -> None:
        """The state of this step enters."""
        rows, slots = torch.cat([self.rows, row.unsqueeze(1)], dim=1), self.slots.with_newest(score)
        source = self.past.admit(self.slots)
        if source is not None:
            rows, slots = rows.gather(1, source.unsqueeze(-1).expand(-1, -1, rows.shape[-1])), slots.taken(source)
        self.rows, self.slots = rows, slots

    def look(self, query: Float[Tensor, "batch asked"]) -> tuple[Tensor, Float[Tensor, "slots batch heads"]]:
        """Attention to all that is held: the context, and the weights."""
        return self.alignment.attend(query, self.rows.transpose(0, 1), self.slots.valid.T)

    def note(self, weights: Float[Tensor, "slots batch heads"]) -> None:
        """Keep the score of this step's attention."""
        self.slots = self.past.noted(self.slots, weights.mean(-1).T)

    def state(self, inner: State, s: Tensor, seen: Tensor) -> AttentiveState:
        """The state after the step."""
        return AttentiveState(inner, s, self.rows, *self.slots)
