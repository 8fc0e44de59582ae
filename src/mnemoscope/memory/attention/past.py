"""Which past states a network may attend to, under which budget.

A past is a policy over slots: it never sees the states themselves, only their scores, and says which of the slots and
the newcomer stay. So one policy serves a step, whose slots hold states, and a scan, whose slots hold places
in a history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from mnemoscope.shapes import Bool, Float, Int


class Slots(NamedTuple):
    """What is known of each slot, (batch, slots); slots of one member of the batch differ from those of another."""

    score: Float[Tensor, "batch slots"]
    """Relevance beta, from 0 on."""
    filled: Float[Tensor, "batch slots"]
    """1 where there is a state, 0 where a slot is empty."""

    @property
    def valid(self) -> Bool[Tensor, "batch slots"]:
        return self.filled > 0

    def with_newest(self) -> Slots:
        """One more slot at the end, for the state of this step."""
        return Slots(pad(self.score, (0, 1)), pad(self.filled, (0, 1), value=1.0))

    def taken(self, source: Int[Tensor, "batch kept"]) -> Slots:
        """The slots at `source`."""
        return Slots(self.score.gather(1, source), self.filled.gather(1, source))


@dataclass(frozen=True)
class FullHistory:
    """All states so far (MemRNN, MemLSTM: Bahdanau et al. 2015 on the network's own past; Kerg, Eq 4.4.1-2)."""

    slots = 0
    """Of the initial state; one more with every step."""


@dataclass(frozen=True)
class RelevanceScreen:
    """The newest states, and of the older ones those that were attended to most while they were new (Kerg, Algorithm
    1, with the state that leaves the buffer in place of the printed `t - rho`).

    The relevance of a state is the attention it was given in its first `short_term` steps. A state that leaves the
    short-term buffer takes a free place of the relevant set, or that of the least relevant one if it is more relevant.

    Args:
        short_term: nu, the newest states, the present one among them.
        relevant: rho, places for older ones.
        score: "published", or "normalised": attention times the number of states that compete for it. Few states
            compete in the beginning, so that the published score keeps the first states whatever they are.

    >>> RelevanceScreen(10, 0)
    Traceback (most recent call last):
    ...
    ValueError: A screen needs room for at least one state in both sets, but short_term is 10 and relevant is 0.

    """

    short_term: int = 10
    relevant: int = 10
    score: str = "published"

    def __post_init__(self) -> None:
        for value in (self.short_term, self.relevant):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"A screen needs room for at least one state in both sets, but short_term is {self.short_term!r} "
                    f"and relevant is {self.relevant!r}."
                )
        if self.score not in ("published", "normalised"):
            raise ValueError(f'score must be "published" or "normalised", but is {self.score!r}.')

    @property
    def slots(self) -> int:
        """The short-term buffer, oldest first, then the relevant set in no order."""
        return self.short_term + self.relevant

    def admit(self, slots: Slots) -> Int[Tensor, "batch slots"]:
        """Where each slot's content comes from when a new state enters; the new one is at the end of the old slots."""
        nu, batch = self.short_term, slots.score.shape[0]
        places = torch.arange(1, nu + self.relevant + 1, device=slots.score.device).repeat(batch, 1)
        places[:, nu - 1] = nu + self.relevant  # the newest
        relevant = places[:, nu:].sub_(1)
        score = slots.score.masked_fill(~slots.valid, -1.0)  # an empty slot gives way to any state, and never enters
        least, where = score[:, nu:].min(1, keepdim=True)
        kept = relevant.gather(1, where)
        relevant.scatter_(1, where, kept.masked_fill_(score[:, :1] > least, 0))  # 0: what leaves the buffer
        return places

    def noted(self, slots: Slots, weights: Float[Tensor, "batch slots"]) -> Slots:
        """The scores after the attention of a step: those of the relevant set stay as they are.

        They are only compared with each other, so that no gradient of a loss passes through them.
        """
        new = weights[:, : self.short_term]  # 0 where a slot is empty
        if self.score == "normalised":
            new = new * slots.filled.sum(1, keepdim=True)
        return slots._replace(score=slots.score + pad(new, (0, self.relevant)))
