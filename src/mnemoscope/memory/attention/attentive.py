"""A cell that attends to its own past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell, State
from mnemoscope.cells.cell import Box, Step, check_input
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.loop import hold_masked, prepared_steps
from mnemoscope.memory.attention.bounds import screened_box
from mnemoscope.memory.attention.fused import fused_screen
from mnemoscope.memory.attention.past import ALIGNMENTS, AttentiveCell, Past
from mnemoscope.memory.attention.scan_memory import Attended, ScanMemory
from mnemoscope.memory.attention.state import Slots

Watch = Callable[[int, Attended, Tensor, Slots], None]
"""Told of each step of a scan: its number, where it looked, the weights (slots, batch, heads) there, and the slots
after it (of a full history: all, with no scores)."""


class Attentive(AttentiveCell):
    """Any cell with attention to its past: `h_t = cell(x_t, s_{t-1})`, `s_t = scale (h_t + c_t)` (Kerg, Eq 4.4.1-2).

    c_t is a mean of the states that `past` keeps, h_t among them, weighted by a softmax of alignments between s_{t-1}
    and each of them. Of a gated cell s takes the place of h, and its other memory stays as it is. `SparseBacktracking`
    has an order and weights of its own.

    A GRU passes on what it read, `h_t = (1 - z) n + z s_{t-1}`, so that with scale = 1 its state may grow by c in every
    step, and so without end. With scale = 0.5 it cannot: if all |h| and |s| are at most 1, so are the next, as n is a
    tanh and c a mean. LSTM and tanh cells have |h| <= 1 whatever they read.

    A scan stores each state once, and not what each step read of them: memory grows with time alone, whatever is kept.
    Screens around Elman and LSTM cells run as one operator (`fused`). Second derivatives need `backend="loop"`.

    Args:
        cell: with a real output that is a tensor of its state.
        past: which states it attends to.
        alignment: "additive" or "dot".
        heads: heads of the attention.
        combine: "sum", or "concatenate": `s_t = scale W [h_t; c_t]`, which begins as the sum.
        scale: 0.5 in the code that Kerg et al. released.

    >>> from mnemoscope.cells import LSTM
    >>> from mnemoscope.memory.attention import RelevanceScreen
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
        h = _visible(cell, cell.initial_state(1))
        self.cell, self.past, self.scale = cell, past, scale
        self.input_size = cell.input_size
        self.alignment = past.alignment(alignment, h.shape[-1], heads)
        self.judge = past.judge(cell.input_size, h.shape[-1])
        self.mix: nn.Linear | None = None
        if combine == "concatenate":
            eye = torch.eye(h.shape[-1])
            self.mix = nn.Linear(2 * h.shape[-1], h.shape[-1], bias=False)
            self.mix.weight = nn.Parameter(torch.cat([eye, eye], dim=1))

    @property
    def grows(self) -> bool:
        return self.past.grows

    def extra_repr(self) -> str:
        return f"past={self.past}, scale={self.scale}"

    def initial_state(self, batch: int) -> Any:
        inner = self.cell.initial_state(batch)
        return self.past.initial_state(inner, self.cell.output(inner), self.alignment.width)

    def output(self, state: Any) -> Float[Tensor, "batch features"]:
        return state.output

    def prepare(self, xs: Tensor) -> tuple[Tensor, Step]:
        us, inner_step = self._driven(xs)

        def step(u: Tensor, state: Any) -> Any:
            self._check(state)
            return self._step(inner_step, u, state)[0]

        return us, step

    def forward(self, x: Float[Tensor, "batch features"], state: Any) -> Any:
        us, step = self.prepare(x)
        return step(us, state)

    def bounds(self, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> Box | None:
        """As `bounds.screened_box` derives; None where the past grows, or the states do."""
        return screened_box(self, low, high)

    def intermediates(self, x: Float[Tensor, "batch features"], state: Any) -> dict[str, Tensor]:
        """`weights` (batch, slots, heads): the attention of this step."""
        us, inner_step = self._driven(x)
        return {"weights": self._step(inner_step, us, state)[1].transpose(0, 1)}

    def macro(self, h: Float[Tensor, "batch features"], c: Float[Tensor, "batch features"]) -> Tensor:
        """S from h and c."""
        s = h + c if self.mix is None else self.mix(torch.cat([h, c], dim=-1))
        return s if self.scale == 1 else self.scale * s

    def _check(self, state: Any) -> None:
        """Raise where a state is that of a network with another past."""
        if not self.grows and state.rows.shape[1] != self.past.slots:
            raise ValueError(
                f"A state of this network has {self.past.slots} slots, but the given one {state.rows.shape[1]}."
            )

    def fast_path(self, xs: Tensor, state: Any, mask: Tensor | None) -> FastPath | NoFastPath:
        self._check(state)
        fused = fused_screen(self, xs, state, mask)
        if isinstance(fused, FastPath):
            return fused
        return FastPath("shared history", lambda: self._scan(xs, state, mask))

    def watched(
        self,
        xs: Float[Tensor, "time batch features"],
        state: Any = None,
        *,
        mask: Tensor | None = None,
        watch: Watch | None = None,
        nudges: Float[Tensor, "time batch hidden"] | None = None,
    ) -> Float[Tensor, "time batch outputs"]:
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

    def _step(self, inner_step: Step, u: Tensor, state: Any) -> tuple[Any, Tensor]:
        """The slow, obvious way, with rows in the state."""
        memory = self.past.step_memory(self.alignment, state)
        inner, s, seen, weights = self._turn(inner_step, u, state.inner, state.s, memory)
        return memory.state(inner, s, seen), weights

    def _scan(
        self, xs: Tensor, state: Any, mask: Tensor | None, watch: Watch | None = None, nudges: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """What the steps give, with places of a shared history in place of the rows."""
        us, inner_step = self._driven(xs)
        memory = self.past.scan_memory(self.alignment, state, len(xs), mask)
        if watch is not None and not isinstance(memory, ScanMemory):
            raise ValueError(f"The attention of a {type(self.past).__name__} cannot be watched; that of others can.")
        inner, s, seen, outputs = state.inner, state.s, state.output, []
        pushes = (None,) * len(us) if nudges is None else nudges.unbind()
        for t, (u, push) in enumerate(zip(us.unbind(), pushes, strict=True)):
            *new, weights = self._turn(inner_step, u, inner, s, memory, push)
            if watch is not None:
                watch(t, memory.attended, weights, memory.slots)
            inner, s, seen = new if mask is None else hold_masked(mask[t], tuple(new), (inner, s, seen))
            outputs.append(seen)
        return memory.close(torch.stack(outputs), inner)

    def _turn(
        self, inner_step: Step, u: Tensor, inner: State, s: Tensor, memory: Any, push: Tensor | None = None
    ) -> tuple[State, Tensor, Tensor, Tensor]:
        """One step in any memory: the state of the cell itself, s, what a readout sees, and the weights."""
        x = u[..., -self.input_size :] if self.past.needs_inputs and self.input_size is not None else None
        inner, s = memory.begin_step(inner, s)
        inner = inner_step(u if x is None else u[..., : -x.shape[-1]], _seeing(inner, s))
        if push is not None:
            inner = _seeing(inner, self.cell.output(inner) + push)
        return inner, *self.past.step(self, memory, s, self.cell.output(inner), x)

    def _driven(self, xs: Tensor) -> tuple[Tensor, Step]:
        """What drives the cell, with the inputs themselves behind it where the past wants them."""
        us, inner_step = prepared_steps(self.cell, xs)
        return torch.cat([us, xs], dim=-1) if self.past.needs_inputs else us, inner_step


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
