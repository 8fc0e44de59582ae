"""The memory of a scan: a history that all steps share, and which of its places a step attends to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.cells.loop import hold_masked
from mnemoscope.cells.state import State, leaves, map_state
from mnemoscope.memory.attention.alignment import Alignment
from mnemoscope.memory.attention.held import AttentiveState
from mnemoscope.memory.attention.history import History
from mnemoscope.memory.attention.slots import Slots

if TYPE_CHECKING:
    from mnemoscope.memory.attention.past import RelevanceScreen


class Seen(NamedTuple):
    """Where a step looks."""

    places: Int[Tensor, "slots batch"] | int
    """Of the history, or how many from its beginning on."""
    valid: Bool[Tensor, "slots batch"] | None
    """None where all are."""


class Along:
    """What `Held` is for a step, for a whole scan: every state is stored once, and slots hold places.

    Args:
        alignment: how states are compared.
        state: that the scan begins with.
        length: steps of the scan.
        mask: where members of the batch take a step, (time, batch); None: everywhere.
        book: which places there are to see.

    """

    def __init__(
        self,
        alignment: Alignment,
        state: AttentiveState,
        length: int,
        mask: Bool[Tensor, "time batch"] | None,
        book: Everything | Screened,
    ) -> None:
        self.alignment, self.mask, self.book = alignment, mask, book
        self.begin, self.t = state.rows.shape[1], 0
        self.history = opened(state.rows, length)
        self.seen = Seen(0, None)
        """Where the present step looks."""

    @property
    def slots(self) -> Slots:
        """As they are now."""
        return self.book.last()[1]

    @property
    def present(self) -> Bool[Tensor, " batch"] | None:
        """Which members of the batch take this step; None: all."""
        return None if self.mask is None else self.mask[self.t]

    def carried(self, inner: State, s: Tensor) -> tuple[State, Tensor]:
        """The state that the step begins with."""
        return inner, s

    def store(self, row: Float[Tensor, "batch width"], score: Float[Tensor, " batch"] | None) -> None:
        """The state of this step enters."""
        place = self.begin + self.t
        self.history.write(place, row if self.mask is None else row.masked_fill(~self.mask[self.t].unsqueeze(-1), 0.0))
        self.seen = self.book.enter(place, None if score is None else score.detach())

    def look(self, query: Float[Tensor, "batch asked"]) -> tuple[Tensor, Float[Tensor, "slots batch heads"]]:
        """Attention to what there is to see: the context, and the weights."""
        return self.history.attend(self.alignment, query, *self.seen)

    def note(self, weights: Float[Tensor, "slots batch heads"]) -> None:
        """Keep the score of this step's attention; the step is over."""
        self.book.note(self.t, weights)
        self.t += 1

    def close(self, outputs: Float[Tensor, "time batch features"], inner: State) -> tuple[Tensor, AttentiveState]:
        """Outputs and the last state."""
        places, slots = self.book.last()
        outputs, rows, inner = closed(self.history, outputs, places, inner)
        return outputs, AttentiveState(inner, outputs[-1], rows, *slots)


def opened(rows: Float[Tensor, "batch slots width"], length: int) -> History:
    """A history that begins with these rows, with room for more."""
    history = History(rows.shape[1] + length, rows.new_empty(len(rows), rows.shape[2]))
    if rows.shape[1]:
        history.write(slice(0, rows.shape[1]), rows.transpose(0, 1))
    return history


def closed(
    history: History, outputs: Tensor, places: Int[Tensor, "slots batch"], inner: State
) -> tuple[Tensor, Float[Tensor, "batch slots width"], State]:
    """What came of a history: the outputs, the rows at `places`, the state of the cell itself."""
    outputs, rows, *parts = history.close(outputs, history.read(places).transpose(0, 1), *leaves(inner))
    parts = iter(parts)
    return outputs, rows, map_state(lambda _: next(parts), inner)


class Everything:
    """All places up to the present one.

    Args:
        slots: those of the state that the scan begins with; their rows are the first of the history.
        length: steps of the scan.
        mask: where members of the batch take a step, (time, batch); None: everywhere.

    """

    def __init__(self, slots: Slots, length: int, mask: Bool[Tensor, "time batch"] | None) -> None:
        new = slots.filled.new_ones(len(slots.filled), length) if mask is None else mask.T.to(slots.filled)
        self.slots = Slots(pad(slots.score, (0, length)), torch.cat([slots.filled, new], dim=1))
        self._valid = None if mask is None and bool(slots.valid.all()) else self.slots.valid.T

    def enter(self, place: int, score: Tensor | None) -> Seen:
        """The newest state lies at `place`."""
        return Seen(place + 1, None if self._valid is None else self._valid[: place + 1])

    def note(self, t: int, weights: Float[Tensor, "slots batch heads"]) -> None:
        """Nothing is noted where nothing is screened."""

    def last(self) -> tuple[Int[Tensor, "slots batch"], Slots]:
        """Places that the last state holds, and their slots."""
        batch, number = self.slots.score.shape
        return torch.arange(number, device=self.slots.score.device).unsqueeze(1).expand(-1, batch), self.slots


class Screened:
    """The places that a screen keeps; arguments as of `Everything`."""

    def __init__(self, past: RelevanceScreen, slots: Slots, mask: Bool[Tensor, "time batch"] | None) -> None:
        self.past, self.mask = past, mask
        batch, number = slots.score.shape
        places = torch.arange(number, device=slots.score.device).repeat(batch, 1)
        self.held = self._new = (places, slots)
        # one slot is filled at every step; the places of the first state come before those of the steps
        self._full_from = 2 * number - int(slots.filled.sum(1).min()) if mask is None else None

    def enter(self, place: int, score: Float[Tensor, " batch"] | None) -> Seen:
        """The newest state lies at `place`; the screen says which of the others stay."""
        places, slots = self.held
        source = self.past.admit(slots)
        places, slots = pad(places, (0, 1), value=place).gather(1, source), slots.with_newest(score).taken(source)
        self._new = (places, slots)
        full = self._full_from is not None and place + 1 >= self._full_from
        return Seen(places.T, None if full else slots.valid.T)

    def note(self, t: int, weights: Float[Tensor, "slots batch heads"]) -> None:
        """Count the attention of step t, where there was one."""
        places, slots = self._new
        new = (places, self.past.noted(slots, weights.mean(-1).T))
        self.held = new if self.mask is None else hold_masked(self.mask[t], new, self.held)

    def last(self) -> tuple[Int[Tensor, "slots batch"], Slots]:
        """Places that the last state holds, and their slots."""
        places, slots = self.held
        return places.T, slots
