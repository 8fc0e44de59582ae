"""The bookkeeping of a scan: which places of the history a step attends to."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from mnemoscope.cells.loop import hold
from mnemoscope.memory.attention.past import RelevanceScreen, Slots
from mnemoscope.shapes import Bool, Float, Int


class Seen(NamedTuple):
    """Where a step looks."""

    places: Int[Tensor, "slots batch"] | int
    """Of the history, or how many from its beginning on."""
    valid: Bool[Tensor, "slots batch"] | None
    """None where all are."""


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

    def enter(self, place: int) -> Seen:
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

    def enter(self, place: int) -> Seen:
        """The newest state lies at `place`; the screen says which of the others stay."""
        places, slots = self.held
        source = self.past.admit(slots)
        places, slots = pad(places, (0, 1), value=place).gather(1, source), slots.with_newest().taken(source)
        self._new = (places, slots)
        full = self._full_from is not None and place + 1 >= self._full_from
        return Seen(places.T, None if full else slots.valid.T)

    def note(self, t: int, weights: Float[Tensor, "slots batch heads"]) -> None:
        """Count the attention of step t, where there was one."""
        places, slots = self._new
        new = (places, self.past.noted(slots, weights.mean(-1).T))
        self.held = new if self.mask is None else hold(self.mask[t], new, self.held)

    def last(self) -> tuple[Int[Tensor, "slots batch"], Slots]:
        """Places that the last state holds, and their slots."""
        places, slots = self.held
        return places.T, slots
