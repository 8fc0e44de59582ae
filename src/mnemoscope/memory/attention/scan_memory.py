"""The memory of a scan: one history for all steps, and the positions in it that each step attends to."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.cells.state import State, leaves, map_state
from mnemoscope.cells.unrolled import hold_masked
from mnemoscope.memory.attention.alignment import Alignment, HeadWeights, Query, Valid
from mnemoscope.memory.attention.history import History, Positions
from mnemoscope.memory.attention.state import AttentiveState, SlotPolicy, Slots


class Attended(NamedTuple):
    """Positions in the history that a step attends to."""

    positions: Positions | int
    """Indices into the history, or n for its first n positions."""
    valid: Valid | None
    """False where a slot is empty; None if all slots are filled."""


class ScanMemory:
    """Past states of a scan of `length` steps: every state is stored once, and slots hold positions in the history.

    The history starts with the rows of the `state` before the first step. A sequence takes a step where the `mask` is
    True; None: always.
    """

    def __init__(
        self,
        alignment: Alignment,
        state: AttentiveState,
        length: int,
        mask: Bool[Tensor, "time batch"] | None,
        positions: AllPositions | ScreenedPositions,
    ) -> None:
        self.alignment, self.mask, self.positions = alignment, mask, positions
        self.offset, self.t = state.rows.shape[1], 0
        self.history = open_history(state.rows, length)
        self.attended = Attended(0, None)
        """Positions that the present step attends to."""

    @property
    def slots(self) -> Slots:
        """The present slots."""
        return self.positions.last()[1]

    @property
    def present(self) -> Bool[Tensor, " batch"] | None:
        """Sequences that take this step; None: all."""
        return None if self.mask is None else self.mask[self.t]

    def begin_step(self, inner: State, s: Tensor) -> tuple[State, Tensor]:
        """Return the state that the step starts from."""
        return inner, s

    def store(self, row: Float[Tensor, "batch width"], score: Float[Tensor, " batch"] | None) -> None:
        """Store the state of this step."""
        position = self.offset + self.t
        row = row if self.mask is None else row.masked_fill(~self.mask[self.t].unsqueeze(-1), 0.0)
        self.history.write(position, row)
        self.attended = self.positions.enter(position, None if score is None else score.detach())

    def attend(self, query: Query) -> tuple[Tensor, HeadWeights]:
        """Attend to the positions of this step; return the context and the weights."""
        return self.history.attend(self.alignment, query, *self.attended)

    def update_scores(self, weights: HeadWeights) -> None:
        """Update the scores with this step's attention, and end the step."""
        self.positions.update_scores(self.t, weights)
        self.t += 1

    def close(self, outputs: Float[Tensor, "time batch features"], inner: State) -> tuple[Tensor, AttentiveState]:
        """Return the outputs and the last state."""
        positions, slots = self.positions.last()
        outputs, rows, inner = close_history(self.history, outputs, positions, inner)
        return outputs, AttentiveState(inner, outputs[-1], rows, *slots)


def open_history(rows: Float[Tensor, "batch slots width"], length: int) -> History:
    """Return a history that starts with `rows` and has room for `length` more."""
    history = History(rows.shape[1] + length, rows.new_empty(len(rows), rows.shape[2]))
    if rows.shape[1]:
        history.write(slice(0, rows.shape[1]), rows.transpose(0, 1))
    return history


def close_history(
    history: History, outputs: Tensor, positions: Positions, inner: State
) -> tuple[Tensor, Float[Tensor, "batch slots width"], State]:
    """Close a history; return the outputs, the rows at `positions`, and the state of the wrapped cell."""
    outputs, rows, *parts = history.close(outputs, history.read(positions).transpose(0, 1), *leaves(inner))
    parts = iter(parts)
    return outputs, rows, map_state(lambda _: next(parts), inner)


class AllPositions:
    """All positions up to the present one; `slots` are those of the state before the first step."""

    def __init__(self, slots: Slots, length: int, mask: Bool[Tensor, "time batch"] | None) -> None:
        new = slots.filled.new_ones(len(slots.filled), length) if mask is None else mask.T.to(slots.filled)
        self.slots = Slots(pad(slots.score, (0, length)), torch.cat([slots.filled, new], dim=1))
        self._valid = None if mask is None and bool(slots.valid.all()) else self.slots.valid.T

    def enter(self, position: int, score: Tensor | None) -> Attended:
        """Add the newest state, at `position`; return the positions to attend to."""
        return Attended(position + 1, None if self._valid is None else self._valid[: position + 1])

    def update_scores(self, t: int, weights: HeadWeights) -> None:
        """Do nothing: without screening there are no scores."""

    def last(self) -> tuple[Positions, Slots]:
        """Return the positions that the last state keeps, and their slots."""
        batch, number = self.slots.score.shape
        return torch.arange(number, device=self.slots.score.device).unsqueeze(1).expand(-1, batch), self.slots


class ScreenedPositions:
    """The positions that a policy keeps; `slots` are those of the state before the first step."""

    def __init__(self, policy: SlotPolicy, slots: Slots, mask: Bool[Tensor, "time batch"] | None) -> None:
        self.policy, self.mask = policy, mask
        batch, number = slots.score.shape
        positions = torch.arange(number, device=slots.score.device).repeat(batch, 1)
        self._kept = self._new = (positions, slots)
        # each step fills one slot; positions of the first state come before those of the steps
        self._full_from = 2 * number - int(slots.filled.sum(1).min()) if mask is None else None

    def enter(self, position: int, score: Float[Tensor, " batch"] | None) -> Attended:
        """Add the newest state, at `position`; return the positions that the policy keeps."""
        positions, slots = self._kept
        source = self.policy.admit(slots)
        assert source is not None
        positions = pad(positions, (0, 1), value=position).gather(1, source)
        slots = slots.with_newest(score).select(source)
        self._new = (positions, slots)
        full = self._full_from is not None and position + 1 >= self._full_from
        return Attended(positions.T, None if full else slots.valid.T)

    def update_scores(self, t: int, weights: HeadWeights) -> None:
        """Add the attention of step t to the scores of the sequences that took the step."""
        positions, slots = self._new
        new = (positions, self.policy.update_scores(slots, weights.mean(-1).T))
        self._kept = new if self.mask is None else hold_masked(self.mask[t], new, self._kept)

    def last(self) -> tuple[Positions, Slots]:
        """Return the positions that the last state keeps, and their slots."""
        positions, slots = self._kept
        return positions.T, slots
