"""Two pasts: the full history, and a screen that keeps the newest and the most relevant states."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.validation import is_whole
from mnemoscope.memory.attention.alignment import Alignment
from mnemoscope.memory.attention.past import ALIGNMENTS, Past
from mnemoscope.memory.attention.relevance import Learned, Surprise
from mnemoscope.memory.attention.scan_memory import AllPositions, ScanMemory, ScreenedPositions
from mnemoscope.memory.attention.state import AttentiveState, Slots


@dataclass(frozen=True)
class FullHistory(Past):
    """Keep all states (MemRNN, MemLSTM: the attention of Bahdanau et al. 2015 over the past; Kerg, Eq 4.4.1-2)."""

    grows = True

    def scan_memory(self, alignment: Alignment, state: AttentiveState, length: int, mask: Tensor | None) -> ScanMemory:
        return ScanMemory(
            alignment, state, length, mask, AllPositions(Slots(state.score, state.filled).detached(), length, mask)
        )


@dataclass(frozen=True)
class RelevanceScreen(Past):
    """Keep the newest states and the most relevant older ones (Kerg, Algorithm 1).

    By default the relevance of a state is the attention that it receives in its first `short_term` steps. A state that
    leaves the short-term buffer takes a free slot of the relevant set; if there is none, it replaces the least relevant
    state, provided that it is more relevant. The algorithm prints `t - rho` for the state that leaves the buffer; here
    it is the state that does leave.

    Args:
        short_term: nu, the size of the short-term buffer, which includes the present state.
        relevant: rho, the size of the relevant set.
        score: the screening function C(i).
            "published": the attention, as above.
            "normalised": the attention times the number of states that compete for it. Few states compete in the first
            steps, and so the published score favours the first states.
            "surprise": the squared error of a linear prediction of the input from the previous macro-state. The
            prediction has a separate penalty, which training adds to the loss (Kerg, section 4.8, without a formula).
            "learned": `r = sigmoid(g(h))` with a small network g. log r is added to the alignment score of h, so that
            the loss trains g: a state whose attention is useful becomes relevant (Kerg, sections 4.8 and 7.5, without a
            formula).

    >>> RelevanceScreen(10, 0)
    Traceback (most recent call last):
    ...
    ValueError: A screen needs room for at least one state in both sets, but short_term is 10 and relevant is 0.

    """

    short_term: int = 10
    relevant: int = 10
    score: str = "published"

    def __post_init__(self) -> None:
        if not (is_whole(self.short_term, 1) and is_whole(self.relevant, 1)):
            raise ValueError(
                f"A screen needs room for at least one state in both sets, but short_term is {self.short_term!r} "
                f"and relevant is {self.relevant!r}."
            )
        if self.score not in ("published", "normalised", "surprise", "learned"):
            raise ValueError(f'score must be "published", "normalised", "surprise" or "learned", not {self.score!r}.')

    @property
    def slots(self) -> int:
        """Number of slots: the short-term buffer, oldest first, then the relevant set, unordered."""
        return self.short_term + self.relevant

    @property
    def needs_inputs(self) -> bool:
        return self.score == "surprise"

    def alignment(self, kind: str, size: int, heads: int) -> Alignment:
        return ALIGNMENTS[kind](size, heads, biased=self.score == "learned")

    def judge(self, input_size: int | None, size: int) -> nn.Module | None:
        if self.score == "surprise":
            return Surprise(input_size, size)
        return Learned(size) if self.score == "learned" else None

    def scan_memory(self, alignment: Alignment, state: AttentiveState, length: int, mask: Tensor | None) -> ScanMemory:
        positions = ScreenedPositions(self, Slots(state.score, state.filled).detached(), mask)
        return ScanMemory(alignment, state, length, mask, positions)

    def admit(self, slots: Slots) -> Int[Tensor, "batch slots"]:
        nu, batch = self.short_term, slots.score.shape[0]
        source = torch.arange(1, nu + self.relevant + 1, device=slots.score.device).repeat(batch, 1)
        source[:, nu - 1] = nu + self.relevant  # the newest
        relevant = source[:, nu:].sub_(1)
        # an empty slot is replaced by any state, and never enters the relevant set
        score = slots.score.masked_fill(~slots.valid, -torch.inf)
        least, where = score[:, nu:].min(1, keepdim=True)
        kept = relevant.gather(1, where)
        relevant.scatter_(1, where, kept.masked_fill_(score[:, :1] > least, 0))  # 0: the state that leaves the buffer
        return source

    def update_scores(self, slots: Slots, weights: Float[Tensor, "batch slots"]) -> Slots:
        """Add the attention to the scores of the short-term buffer; the relevant set keeps its scores.

        Scores are only compared with each other, so that the loss has no gradient through them.
        """
        if self.score in ("surprise", "learned"):  # fixed when the state was stored
            return slots
        new = weights[:, : self.short_term]  # 0 where a slot is empty
        if self.score == "normalised":
            new = new * slots.filled.sum(1, keepdim=True)
        return slots._replace(score=slots.score + pad(new, (0, self.relevant)))
