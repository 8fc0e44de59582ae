"""The bookkeeping of a scan: which places of the history a step attends to."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

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
        step: how many steps each member of the batch has taken.
        length: steps of the scan.
        mask: where members of the batch take a step, (time, batch); None: everywhere.

    """

    def __init__(self, slots: Slots, step: Float[Tensor, "batch 1"], length: int, mask: Tensor | None) -> None:
        self.mask = mask
        taken = torch.ones_like(step).expand(-1, length) if mask is None else mask.T.to(step)
        self.times = torch.cat([slots.time, (step + taken.cumsum(1)) * taken], dim=1)
        self.score = torch.cat([slots.score, torch.zeros_like(taken)], dim=1)
        self.step = step + taken.sum(1, keepdim=True)
        self._filled = None if mask is None and bool(slots.valid.all()) else (self.times > 0).T

    def enter(self, place: int) -> Seen:
        """The newest state lies at `place`."""
        return Seen(place + 1, None if self._filled is None else self._filled[: place + 1])

    def note(self, t: int, weights: Float[Tensor, "slots batch heads"]) -> None:
        """Nothing is noted where nothing is screened."""

    def last(self) -> tuple[Int[Tensor, "slots batch"], Slots, Float[Tensor, "batch 1"]]:
        """Places that the last state holds, their slots, and steps taken."""
        number, batch = self.times.shape[1], self.times.shape[0]
        places = torch.arange(number, device=self.times.device).unsqueeze(1).expand(-1, batch)
        return places, Slots(self.score, self.times), self.step


class Screened:
    """The places that a screen keeps; arguments as of `Everything`."""

    def __init__(
        self, past: RelevanceScreen, slots: Slots, step: Float[Tensor, "batch 1"], mask: Tensor | None
    ) -> None:
        self.past, self.mask = past, mask
        batch, number = slots.score.shape
        places = torch.arange(number, device=step.device).repeat(batch, 1)
        self.held = (places, slots, step)
        self._new = self.held
        self._until_full = number if mask is None and not bool(slots.time.any()) else None

    def enter(self, place: int) -> Seen:
        """The newest state lies at `place`; the screen says which of the others stay."""
        places, slots, step = self.held
        source, step = self.past.admit(slots), step + 1
        places = torch.cat([places, places.new_full((len(places), 1), place)], 1).gather(1, source)
        slots = slots.with_newest(step).taken(source)
        self._new = (places, slots, step)
        full = self._until_full is not None and place + 1 >= 2 * self._until_full  # the first so many are of the state
        return Seen(places.T, None if full else slots.valid.T)

    def note(self, t: int, weights: Float[Tensor, "slots batch heads"]) -> None:
        """Count the attention of step t, where there was one."""
        places, slots, step = self._new
        new = (places, self.past.noted(slots, weights.mean(-1).T), step)
        self.held = new if self.mask is None else hold(self.mask[t], new, self.held)

    def last(self) -> tuple[Int[Tensor, "slots batch"], Slots, Float[Tensor, "batch 1"]]:
        """Places that the last state holds, their slots, and steps taken."""
        places, slots, step = self.held
        return places.T, slots, step
