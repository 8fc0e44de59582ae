"""A cell that attends to its own past."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.cells import Cell, State
from mnemoscope.cells.cell import Step, check_input
from mnemoscope.cells.fast import FastPath, NoFastPath
from mnemoscope.cells.loop import hold, steps_of
from mnemoscope.cells.state import leaves, map_state
from mnemoscope.memory.attention.alignment import Additive, Alignment, ScaledDot
from mnemoscope.memory.attention.history import History
from mnemoscope.memory.attention.past import FullHistory, RelevanceScreen, Slots
from mnemoscope.memory.attention.places import Everything, Screened, Seen
from mnemoscope.shapes import Float

ALIGNMENTS = {"additive": Additive, "dot": ScaledDot}
Past = FullHistory | RelevanceScreen
Watch = Callable[[int, Seen, Tensor, Slots], None]
"""Told of each step of a scan: its number, where it looked, the weights (slots, batch, heads) there, and the slots
after it (of a full history: all, with no scores)."""


class AttentiveState(NamedTuple):
    """What an attentive cell knows."""

    inner: State
    """Of the cell itself, with its own h."""
    s: Float[Tensor, "batch features"]
    """The macro-state: what the cell reads in place of h, and what a readout sees."""
    rows: Float[Tensor, "batch slots width"]
    """The past states that are kept, each with its key."""
    score: Float[Tensor, "batch slots"]
    """Their relevance."""
    filled: Float[Tensor, "batch slots"]
    """1 where there is a state, 0 where a slot is empty."""


class Attentive(Cell):
    """Any cell with attention to its past: `h_t = cell(x_t, s_{t-1})`, `s_t = scale (h_t + c_t)` (Kerg, Eq 4.4.1-2).

    c_t is a mean of the states that `past` keeps, h_t among them, weighted by a softmax of alignments between s_{t-1}
    and each of them. Of a gated cell s takes the place of h, and its other memory stays as it is. A GRU passes on what
    it read, so that its state grows by c in every step: with scale = 0.5 it stays bounded.

    A scan stores each state once and computes the attention of a step again in the backward pass: memory grows with
    time alone, whatever is kept. Second derivatives need `backend="loop"`.

    Args:
        cell: with a real output that is a tensor of its state.
        past: which states it attends to.
        alignment: "additive" or "dot".
        heads: heads of the attention.
        combine: "sum", or "concatenate": `s_t = scale W [h_t; c_t]`, which begins as the sum.
        scale: 0.5 in the code that Kerg et al. released.

    >>> from mnemoscope.cells import LSTM
    >>> import mnemoscope as ms
    >>> rellstm = Attentive(LSTM(10, 32), RelevanceScreen(short_term=5, relevant=5))
    >>> outputs, state = ms.scan(rellstm, torch.zeros(20, 4, 10))
    >>> outputs.shape, state.rows.shape
    (torch.Size([20, 4, 32]), torch.Size([4, 10, 64]))

    """

    def __init__(
        self,
        cell: Cell,
        past: Past,
        *,
        alignment: str = "additive",
        heads: int = 1,
        combine: str = "sum",
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        if alignment not in ALIGNMENTS:
            raise ValueError(f"alignment must be one of {', '.join(ALIGNMENTS)}, but is {alignment!r}.")
        if combine not in ("sum", "concatenate"):
            raise ValueError(f'combine must be "sum" or "concatenate", but is {combine!r}.')
        begin = cell.initial_state(1)
        h = _visible(cell, begin)
        self.cell, self.past, self.scale = cell, past, scale
        self.input_size = cell.input_size
        self.alignment: Alignment = ALIGNMENTS[alignment](h.shape[-1], heads)
        self.mix: nn.Linear | None = None
        if combine == "concatenate":
            eye = torch.eye(h.shape[-1])
            self.mix = nn.Linear(2 * h.shape[-1], h.shape[-1], bias=False)
            self.mix.weight = nn.Parameter(torch.cat([eye, eye], dim=1))

    @property
    def grows(self) -> bool:
        return isinstance(self.past, FullHistory)

    def extra_repr(self) -> str:
        return f"past={self.past}, scale={self.scale}"

    def initial_state(self, batch: int) -> AttentiveState:
        inner = self.cell.initial_state(batch)
        s = self.cell.output(inner)
        rows = s.new_zeros(batch, self.past.slots, self.alignment.width)
        return AttentiveState(inner, s, rows, *s.new_zeros(2, batch, self.past.slots))

    def output(self, state: AttentiveState) -> Float[Tensor, "batch features"]:
        return state.s

    def prepare(self, xs: Tensor) -> tuple[Tensor, Step]:
        us, inner_step = steps_of(self.cell, xs)

        def step(u: Tensor, state: AttentiveState) -> AttentiveState:
            return self._step(inner_step, u, state)[0]

        return us, step

    def forward(self, x: Float[Tensor, "batch features"], state: AttentiveState) -> AttentiveState:
        us, step = self.prepare(x)
        return step(us, state)

    def intermediates(self, x: Float[Tensor, "batch features"], state: AttentiveState) -> dict[str, Tensor]:
        """`weights` (batch, slots, heads): the attention of this step."""
        us, inner_step = steps_of(self.cell, x)
        return {"weights": self._step(inner_step, us, state)[1]}

    def _step(self, inner_step: Step, u: Tensor, state: AttentiveState) -> tuple[AttentiveState, Tensor]:
        """The slow, obvious way, with rows in the state."""
        inner = inner_step(u, _seeing(state.inner, state.s))
        h = self.cell.output(inner)
        slots = Slots(state.score, state.filled)
        rows = torch.cat([state.rows, self.alignment.row(h).unsqueeze(1)], dim=1)
        if isinstance(self.past, RelevanceScreen):
            source = self.past.admit(slots)
            rows = rows.gather(1, source.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))
            slots = slots.with_newest().taken(source)
        else:
            slots = slots.with_newest()
        c, weights = self.alignment.attend(self.alignment.query(state.s), rows.transpose(0, 1), slots.valid.T)
        weights = weights.transpose(0, 1)
        if isinstance(self.past, RelevanceScreen):
            slots = self.past.noted(slots, weights.mean(-1))
        return AttentiveState(inner, self._macro(h, c), rows, *slots), weights

    def _macro(self, h: Tensor, c: Tensor) -> Tensor:
        s = h + c if self.mix is None else self.mix(torch.cat([h, c], dim=-1))
        return s if self.scale == 1 else self.scale * s

    def fast_path(self, xs: Tensor, state: AttentiveState, mask: Tensor | None) -> FastPath | NoFastPath:
        return FastPath("shared history", lambda: self._scan(xs, state, mask))

    def watched(
        self,
        xs: Float[Tensor, "time batch features"],
        state: AttentiveState | None = None,
        *,
        mask: Tensor | None = None,
        watch: Watch | None = None,
        nudges: Float[Tensor, "time batch hidden"] | None = None,
    ) -> Float[Tensor, "time batch hidden"]:
        """The outputs of a scan, for those who look at what happens inside.

        Args:
            xs: inputs, time first.
            state: the state before the first input; the initial state by default.
            mask: (time, batch), False where a member of the batch has no input.
            watch: is told of each step. Places count from the slots of the given state on: the state of step t lies
                at `state.rows.shape[1] + t`.
            nudges: are added to each h_t before anything reads it; the gradient of a loss with respect to nudges of 0
                is that with respect to every h_t.

        """
        check_input(self, xs)
        wanted = tuple(xs.shape[:2])
        if mask is not None and (mask.shape != wanted or mask.dtype != torch.bool):
            raise ValueError(
                f"mask must be of bool and of shape (time, batch) = {wanted}, but is {mask.dtype} of shape "
                f"{tuple(mask.shape)}."
            )
        if mask is not None:  # as in scan: what is not looked at must not spoil the gradients
            xs = xs.masked_fill(~mask.unsqueeze(-1), 0)
        state = self.initial_state(xs.shape[1]) if state is None else state
        return self._scan(xs, state, mask, watch, nudges)[0]

    def _scan(
        self,
        xs: Tensor,
        state: AttentiveState,
        mask: Tensor | None,
        watch: Watch | None = None,
        nudges: Tensor | None = None,
    ) -> tuple[Tensor, AttentiveState]:
        """What the steps give, with places of a shared history in place of the rows."""
        us, inner_step = steps_of(self.cell, xs)
        slots, begin = Slots(state.score, state.filled), state.rows.shape[1]
        if isinstance(self.past, RelevanceScreen):
            book = Screened(self.past, slots, mask)
        else:
            book = Everything(slots, len(xs), mask)
        history = History(begin + len(xs), self.alignment.row(state.s))
        if begin:
            history.write(slice(0, begin), state.rows.transpose(0, 1))
        inner, s, outputs = state.inner, state.s, []
        pushes = None if nudges is None else nudges.unbind()
        for t, u in enumerate(us.unbind()):
            new_inner = inner_step(u, _seeing(inner, s))
            if pushes is not None:
                new_inner = _seeing(new_inner, self.cell.output(new_inner) + pushes[t])
            h = self.cell.output(new_inner)
            row = self.alignment.row(h)
            history.write(begin + t, row if mask is None else row.masked_fill(~mask[t].unsqueeze(-1), 0.0))
            seen = book.enter(begin + t)
            c, weights = history.attend(self.alignment, self.alignment.query(s), *seen)
            book.note(t, weights)
            if watch is not None:
                watch(t, seen, weights, book.last()[1])
            new = new_inner, self._macro(h, c)
            inner, s = new if mask is None else hold(mask[t], new, (inner, s))
            outputs.append(s)
        places, slots = book.last()
        rows = history.read(places).transpose(0, 1)
        whole, rows, *parts = history.close(torch.stack(outputs), rows, *leaves(inner))
        parts = iter(parts)
        return whole, AttentiveState(map_state(lambda _: next(parts), inner), whole[-1], rows, *slots)


def _visible(cell: Cell, state: State) -> Tensor:
    """The part of a state that attention replaces, or an error in words."""
    h = cell.output(state)
    own = state if isinstance(state, Tensor) else getattr(state, "h", None)
    if own is not h or h.dim() != 2 or h.is_complex():
        raise ValueError(
            f"Attention needs a cell whose output is a real tensor (batch, features) of its state, as of Elman, LSTM "
            f"and GRU cells, but that of this {type(cell).__name__} is not."
        )
    return h


def _seeing(inner: State, s: Tensor) -> State:
    """The state of a cell with s in the place of its h."""
    return s if isinstance(inner, Tensor) else inner._replace(h=s)
