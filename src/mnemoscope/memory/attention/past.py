"""Which past states a network may attend to, under which budget.

A past is a policy over slots: it never sees the states themselves, only their scores, and says which of the slots and
the newcomer stay. So one policy serves a step, whose slots hold states, and a scan, whose slots hold places
in a history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from mnemoscope.base.array_types import Float, Int
from mnemoscope.cells.state import State
from mnemoscope.memory.attention.alignment import Additive, Alignment, ScaledDot
from mnemoscope.memory.attention.held import AttentiveState, Held
from mnemoscope.memory.attention.places import Along, Everything, Screened
from mnemoscope.memory.attention.relevance import Judged, Learned, Surprise
from mnemoscope.memory.attention.slots import Slots

if TYPE_CHECKING:
    from mnemoscope.memory.attention.attentive import Attentive

ALIGNMENTS = {"additive": Additive, "dot": ScaledDot}


class Past:
    """What an attentive cell asks of its past: how it begins, what a step and a scan remember in, and in which order a
    step stores and looks.
    """

    grows = False
    """Whether there are more slots with every step."""

    @property
    def slots(self) -> int:
        """Of the initial state."""
        return 0

    @property
    def sees_inputs(self) -> bool:
        """Whether the relevance of a state depends on the input that led to it."""
        return False

    def alignment(self, kind: str, size: int, heads: int) -> Alignment:
        """How states are compared."""
        return ALIGNMENTS[kind](size, heads)

    def judge(self, input_size: int | None, size: int) -> nn.Module | None:
        """What says at once how relevant a state is, and learns it; None: nothing does."""
        return None

    def begin(self, inner: State, s: Float[Tensor, "batch features"], width: int) -> Any:
        """The state before the first step."""
        return AttentiveState(inner, s, s.new_zeros(len(s), self.slots, width), *s.new_zeros(2, len(s), self.slots))

    def held(self, alignment: Alignment, state: Any) -> Any:
        """The memory of one step."""
        return Held(self, alignment, state)

    def along(self, alignment: Alignment, state: Any, length: int, mask: Tensor | None) -> Any:
        """The memory of a scan."""
        raise NotImplementedError(f"{type(self).__name__} must define along(alignment, state, length, mask).")

    def admit(self, slots: Slots) -> Int[Tensor, "batch slots"] | None:
        """Where each slot's content comes from when a new state enters, at the end of the old slots; None: nothing
        leaves.
        """
        return None

    def noted(self, slots: Slots, weights: Float[Tensor, "batch slots"]) -> Slots:
        """The slots after the attention of a step; nothing is noted where nothing is screened."""
        return slots

    def turn(
        self, net: Attentive, memory: Any, s: Tensor, h: Tensor, x: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """From h to the macro-state: store h, then attend to all that is kept. Gives s, what a readout sees, and the
        weights (slots, batch, heads).
        """
        judged = Judged() if net.judge is None else net.judge(s, h, x, memory.present)
        memory.store(net.alignment.row(h, judged.bias), judged.score)
        c, weights = memory.look(net.alignment.query(s))
        memory.note(weights)
        s = net.macro(h, c)
        return s, s, weights


@dataclass(frozen=True)
class FullHistory(Past):
    """All states so far (MemRNN, MemLSTM: Bahdanau et al. 2015 on the network's own past; Kerg, Eq 4.4.1-2)."""

    grows = True

    def along(self, alignment: Alignment, state: AttentiveState, length: int, mask: Tensor | None) -> Along:
        return Along(alignment, state, length, mask, Everything(Slots(state.score, state.filled), length, mask))


@dataclass(frozen=True)
class RelevanceScreen(Past):
    """The newest states, and of the older ones those that are relevant (Kerg, Algorithm 1, with the state that leaves
    the buffer in place of the printed `t - rho`).

    The relevance of a state is the attention it was given in its first `short_term` steps, or what `score` says. A
    state that leaves the short-term buffer takes a free place of the relevant set, or that of the least relevant one if
    it is more relevant.

    Args:
        short_term: nu, the newest states, the present one among them.
        relevant: rho, places for older ones.
        score: the screening function C(i).
            "published": attention, as above.
            "normalised": attention times the number of states that compete for it. Few states compete in the
            beginning, so that the published score keeps the first states whatever they are.
            "surprise": how far the input was from what a linear map of the macro-state before it had expected. The map
            learns by its own penalty, which training adds to the loss (Kerg, section 4.8, in words).
            "learned": `r = sigmoid(g(h))` of a small network g. As log r is added to the alignment score of h, the
            loss teaches g: attention to a state that will be of use makes it relevant (Kerg, sections 4.8 and 7.5, in
            words).

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
        if self.score not in ("published", "normalised", "surprise", "learned"):
            raise ValueError(
                f'score must be "published", "normalised", "surprise" or "learned", but is {self.score!r}.'
            )

    @property
    def slots(self) -> int:
        """The short-term buffer, oldest first, then the relevant set in no order."""
        return self.short_term + self.relevant

    @property
    def sees_inputs(self) -> bool:
        return self.score == "surprise"

    def alignment(self, kind: str, size: int, heads: int) -> Alignment:
        return ALIGNMENTS[kind](size, heads, biased=self.score == "learned")

    def judge(self, input_size: int | None, size: int) -> nn.Module | None:
        if self.score == "surprise":
            return Surprise(input_size, size)
        return Learned(size) if self.score == "learned" else None

    def along(self, alignment: Alignment, state: AttentiveState, length: int, mask: Tensor | None) -> Along:
        return Along(alignment, state, length, mask, Screened(self, Slots(state.score, state.filled), mask))

    def admit(self, slots: Slots) -> Int[Tensor, "batch slots"]:
        """Where each slot's content comes from when a new state enters; the new one is at the end of the old slots."""
        nu, batch = self.short_term, slots.score.shape[0]
        places = torch.arange(1, nu + self.relevant + 1, device=slots.score.device).repeat(batch, 1)
        places[:, nu - 1] = nu + self.relevant  # the newest
        relevant = places[:, nu:].sub_(1)
        score = slots.score.masked_fill(
            ~slots.valid, -torch.inf
        )  # an empty slot gives way to any state, and never enters
        least, where = score[:, nu:].min(1, keepdim=True)
        kept = relevant.gather(1, where)
        relevant.scatter_(1, where, kept.masked_fill_(score[:, :1] > least, 0))  # 0: what leaves the buffer
        return places

    def noted(self, slots: Slots, weights: Float[Tensor, "batch slots"]) -> Slots:
        """The scores after the attention of a step: those of the relevant set stay as they are.

        They are only compared with each other, so that no gradient of a loss passes through them.
        """
        if self.score in ("surprise", "learned"):  # known from the first step on
            return slots
        new = weights[:, : self.short_term]  # 0 where a slot is empty
        if self.score == "normalised":
            new = new * slots.filled.sum(1, keepdim=True)
        return slots._replace(score=slots.score + pad(new, (0, self.relevant)))
