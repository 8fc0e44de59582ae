"""The past of an attentive cell: which states it may attend to, under which budget, and in which order a step works."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.state import State
from mnemoscope.memory.attention.alignment import Additive, Alignment, ScaledDot
from mnemoscope.memory.attention.relevance import Relevance
from mnemoscope.memory.attention.state import AttentiveState, SlotPolicy, Slots

ALIGNMENTS = {"additive": Additive, "dot": ScaledDot}
"""Alignments of `Attentive`, by name."""


class AttentiveCell(Cell):
    """Parts of an attentive cell that a past, the bounds and the fused scan rely on; see `Attentive`."""

    cell: Cell
    past: Past
    scale: float
    alignment: Alignment
    judge: nn.Module | None
    """Estimates the relevance of a state when it is stored; None: attention determines the relevance."""
    mix: nn.Linear | None
    """W of `s = scale W [h; c]`; None: `s = scale (h + c)`."""

    def macro(self, h: Float[Tensor, "batch features"], c: Float[Tensor, "batch features"]) -> Tensor:
        """Return the macro-state s from h and the context c."""
        s = h + c if self.mix is None else self.mix(torch.cat([h, c], dim=-1))
        return s if self.scale == 1 else self.scale * s


class Past(SlotPolicy):
    """Rules of attention to the past: initial state, memory of a step and of a scan, and order of the operations."""

    grows = False
    """Whether each step adds a slot."""

    @property
    def slots(self) -> int:
        """Number of slots of the initial state."""
        return 0

    @property
    def needs_inputs(self) -> bool:
        """Whether the relevance of a state depends on the input of its step."""
        return False

    def alignment(self, kind: str, size: int, heads: int) -> Alignment:
        """Build the alignment between queries and past states."""
        return ALIGNMENTS[kind](size, heads)

    def judge(self, input_size: int | None, size: int) -> nn.Module | None:
        """Build the module that estimates the relevance of a new state, or return None if attention does."""
        return None

    def initial_state(self, inner: State, s: Float[Tensor, "batch features"], width: int) -> Any:
        """Return the state before the first step; `width` is the length of a row."""
        return AttentiveState(inner, s, s.new_zeros(len(s), self.slots, width), *s.new_zeros(2, len(s), self.slots))

    def step_memory(self, alignment: Alignment, state: Any) -> Any:
        """Return the memory of one step."""
        return StepMemory(self, alignment, state)

    def scan_memory(self, alignment: Alignment, state: Any, length: int, mask: Tensor | None) -> Any:
        """Return the memory of a scan over `length` steps."""
        raise NotImplementedError(f"{type(self).__name__} must define scan_memory(alignment, state, length, mask).")

    def step(
        self, net: AttentiveCell, memory: Any, s: Tensor, h: Tensor, x: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Store h, attend to all kept states, and combine h with the context.

        Returns the macro-state, the output, and the weights (slots, batch, heads).
        """
        relevance = Relevance() if net.judge is None else net.judge(s, h, x, memory.present)
        memory.store(net.alignment.row(h, relevance.bias), relevance.score)
        c, weights = memory.attend(net.alignment.query(s))
        memory.update_scores(weights)
        s = net.macro(h, c)
        return s, s, weights


class StepMemory:
    """Past states of a single step, as rows of its state. This is the slow reference of a scan."""

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
