"""The memory of a single step: the past states are rows of the state. This is the slow reference of a scan."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.state import State
from mnemoscope.memory.attention.alignment import Alignment
from mnemoscope.memory.attention.state import AttentiveState, SlotPolicy, Slots


class StepMemory:
    """Past states of one step, as rows of its state."""

    present = None
    """Sequences that take this step; None means all, because a step has no mask."""

    def __init__(self, policy: SlotPolicy, alignment: Alignment, state: AttentiveState) -> None:
        self.policy, self.alignment = policy, alignment
        self.rows, self.slots = state.rows, Slots(state.score, state.filled)

    def begin_step(self, inner: State, s: Tensor) -> tuple[State, Tensor]:
        """Return the state that the step starts from."""
        return inner, s

    def store(self, row: Float[Tensor, "batch width"], score: Float[Tensor, " batch"] | None) -> None:
        """Store the state of this step, in the slot that the policy gives it."""
        rows, slots = torch.cat([self.rows, row.unsqueeze(1)], dim=1), self.slots.with_newest(score)
        source = self.policy.admit(self.slots)
        if source is not None:
            rows, slots = rows.gather(1, source.unsqueeze(-1).expand(-1, -1, rows.shape[-1])), slots.select(source)
        self.rows, self.slots = rows, slots

    def attend(self, query: Float[Tensor, "batch query"]) -> tuple[Tensor, Float[Tensor, "slots batch heads"]]:
        """Attend to all stored states; return the context and the weights."""
        return self.alignment.attend(query, self.rows.transpose(0, 1), self.slots.valid.T)

    def update_scores(self, weights: Float[Tensor, "slots batch heads"]) -> None:
        """Update the scores with this step's attention."""
        self.slots = self.policy.update_scores(self.slots, weights.mean(-1).T)

    def state(self, inner: State, s: Tensor, output: Tensor) -> AttentiveState:
        """Return the state after the step."""
        return AttentiveState(inner, s, self.rows, *self.slots)
