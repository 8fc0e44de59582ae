"""Which steps of a sequence a screened network keeps, and how relevant each of them was found."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.memory.attention.attentive import Attentive
from mnemoscope.memory.attention.past import RelevanceScreen, Slots
from mnemoscope.shapes import Float, Int

EMPTY = -1
"""The step of a slot that holds no state."""


class Kept(NamedTuple):
    """What was screened along a sequence."""

    short_term: Int[Tensor, "time batch short_term"]
    """Of every step the steps in the short-term buffer, oldest first; -1 where a slot is empty."""
    relevant: Int[Tensor, "time batch relevant"]
    """Of every step the steps in the relevant set, in no order; -1 where a slot is empty."""
    score: Float[Tensor, "screened batch"]
    """The relevance with which each step left the buffer; the last ones never did."""


@torch.no_grad()
def kept_steps(cell: Attentive, xs: Float[Tensor, "time batch features"]) -> Kept:
    """Which steps the network attends to, and their relevance, from its initial state on.

    >>> from mnemoscope.cells import Elman
    >>> cell = Attentive(Elman(2, 4, "tanh"), RelevanceScreen(short_term=2, relevant=3))
    >>> kept = kept_steps(cell, torch.zeros(8, 1, 2))
    >>> kept.short_term[-1].tolist(), kept.score.shape
    ([[6, 7]], torch.Size([6, 1]))
    """
    if not isinstance(cell, Attentive) or not isinstance(cell.past, RelevanceScreen):
        raise ValueError(
            "Steps are screened by an Attentive cell with a RelevanceScreen as its past, such as relrnn or rellstm; "
            f"this is {cell}."
        )
    past, state = cell.past, cell.initial_state(xs.shape[1])
    steps = torch.full((xs.shape[1], past.slots), EMPTY, device=xs.device)
    held, scores = [], []
    us, step = cell.prepare(xs)
    for t, u in enumerate(us.unbind()):
        if t >= past.short_term:
            scores.append(state.score[:, 0])  # of the oldest, which leaves now
        # the screen decides by the scores before the step
        source = past.admit(Slots(state.score, state.filled))
        newest = torch.full_like(steps[:, :1], t)
        steps = torch.cat([steps, newest], dim=1).gather(1, source)
        held.append(steps)
        state = step(u, state)
    places = torch.stack(held)
    score = torch.stack(scores) if scores else state.score.new_zeros(0, xs.shape[1])
    return Kept(places[..., : past.short_term], places[..., past.short_term :], score)
