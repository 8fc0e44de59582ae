"""A cell that attends to its past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell, State
from mnemoscope.cells.cell import Box, Step, check_input
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.unrolled import hold_masked, prepared_steps
from mnemoscope.memory.attention.bounds import screened_box
from mnemoscope.memory.attention.fused import fused_scan
from mnemoscope.memory.attention.past import ALIGNMENTS, AttentiveCell, Past
from mnemoscope.memory.attention.scan_memory import Attended, ScanMemory
from mnemoscope.memory.attention.state import Slots

StepCallback = Callable[[int, Attended, Tensor, Slots], None]
"""Called after each step of a scan with its number, the attended positions, the weights (slots, batch, heads), and the
slots after the step (for a full history: all slots, without scores)."""


class Attentive(AttentiveCell):
    """Any cell with attention to its past: `h_t = cell(x_t, s_{t-1})`, `s_t = scale (h_t + c_t)` (Kerg, Eq 4.4.1-2).

    c_t is a weighted mean of the states that `past` keeps, including h_t; the weights are a softmax of the alignments
    between s_{t-1} and each state. In a gated cell s replaces h, and the other parts of its state do not change.
    `SparseBacktracking` has a different order and different weights.

    A GRU passes on what it reads, `h_t = (1 - z) n + z s_{t-1}`. With scale = 1 its state may grow by c at every step,
    without bound. With scale = 0.5 it is bounded: if all |h| and |s| are at most 1, so are the next, because n is a
    tanh and c a mean. LSTM and tanh cells have |h| <= 1 for any input.

    A scan stores each state once, without copies for the steps that read it: its memory is linear in time. Around Elman
    and LSTM cells it is one operator (`fused`). Second derivatives need `backend="loop"`.

    Args:
        cell: the wrapped cell; its output must be a real tensor of its state.
        past: the states to attend to.
        alignment: "additive" or "dot".
        heads: number of attention heads.
        combine: "sum", or "concatenate": `s_t = scale W [h_t; c_t]`, which is initialised as the sum.
        scale: factor of the macro-state; 0.5 in the code released by Kerg et al.

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
        h = _hidden(cell, cell.initial_state(1))
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
        us, inner_step = self._drive(xs)

        def step(u: Tensor, state: Any) -> Any:
            self._check(state)
            return self._step(inner_step, u, state)[0]

        return us, step

    def forward(self, x: Float[Tensor, "batch features"], state: Any) -> Any:
        us, step = self.prepare(x)
        return step(us, state)

    def bounds(self, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> Box | None:
        """Return the box of `bounds.screened_box`; None if the past grows or the states are unbounded."""
        return screened_box(self, low, high)

    def intermediates(self, x: Float[Tensor, "batch features"], state: Any) -> dict[str, Tensor]:
        """Return `weights` (batch, slots, heads), the attention of this step."""
        us, inner_step = self._drive(x)
        return {"weights": self._step(inner_step, us, state)[1].transpose(0, 1)}

    def _check(self, state: Any) -> None:
        """Raise if the state belongs to a network with another past."""
        if not self.grows and state.rows.shape[1] != self.past.slots:
            raise ValueError(
                f"A state of this network has {self.past.slots} slots, but the given one has {state.rows.shape[1]}."
            )

    def fast_path(self, xs: Tensor, state: Any, mask: Tensor | None) -> FastPath | NoFastPath:
        self._check(state)
        fused = fused_scan(self, xs, state, mask)
        if isinstance(fused, FastPath):
            return fused
        return FastPath("shared history", lambda: self._scan(xs, state, mask))

    def scan_outputs(
        self,
        xs: Float[Tensor, "time batch features"],
        state: Any = None,
        *,
        mask: Tensor | None = None,
        callback: StepCallback | None = None,
        perturbations: Float[Tensor, "time batch hidden"] | None = None,
    ) -> Float[Tensor, "time batch outputs"]:
        """Return the outputs of a scan, with access to its steps.

        The `callback` is called after each step. Positions start with the slots of the given state: the state of step t
        is at `state.rows.shape[1] + t`. The `perturbations` are added to each h_t before it is read; the gradient of a
        loss at zero perturbations is the gradient for every h_t.
        """
        check_input(self, xs)
        wanted = tuple(xs.shape[:2])
        if mask is not None and (mask.shape != wanted or mask.dtype != torch.bool):
            raise ValueError(
                f"mask must be bool and of shape (time, batch) = {wanted}, but is {mask.dtype} of shape "
                f"{tuple(mask.shape)}."
            )
        if mask is not None:  # as in scan: masked inputs, even NaN, must not affect the gradients
            xs = xs.masked_fill(~mask.unsqueeze(-1), 0)
        state = self.initial_state(xs.shape[1]) if state is None else state
        return self._scan(xs, state, mask, callback, perturbations)[0]

    def _step(self, inner_step: Step, u: Tensor, state: Any) -> tuple[Any, Tensor]:
        """Take one step with the past states as rows of the state: the slow reference."""
        memory = self.past.step_memory(self.alignment, state)
        inner, s, output, weights = self._attend(inner_step, u, state.inner, state.s, memory)
        return memory.state(inner, s, output), weights

    def _scan(
        self,
        xs: Tensor,
        state: Any,
        mask: Tensor | None,
        callback: StepCallback | None = None,
        perturbations: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """Run all steps, with positions in a shared history instead of rows."""
        us, inner_step = self._drive(xs)
        memory = self.past.scan_memory(self.alignment, state, len(xs), mask)
        if callback is not None and not isinstance(memory, ScanMemory):
            raise ValueError(f"The attention of a {type(self.past).__name__} cannot be recorded, unlike other pasts.")
        inner, s, output, outputs = state.inner, state.s, state.output, []
        by_step = (None,) * len(us) if perturbations is None else perturbations.unbind()
        for t, (u, perturbation) in enumerate(zip(us.unbind(), by_step, strict=True)):
            *new, weights = self._attend(inner_step, u, inner, s, memory, perturbation)
            if callback is not None:
                callback(t, memory.attended, weights, memory.slots)
            inner, s, output = new if mask is None else hold_masked(mask[t], tuple(new), (inner, s, output))
            outputs.append(output)
        return memory.close(torch.stack(outputs), inner)

    def _attend(
        self, inner_step: Step, u: Tensor, inner: State, s: Tensor, memory: Any, perturbation: Tensor | None = None
    ) -> tuple[State, Tensor, Tensor, Tensor]:
        """Take one step with any memory; return the state of the wrapped cell, s, the output, and the weights."""
        x = u[..., -self.input_size :] if self.past.needs_inputs and self.input_size is not None else None
        inner, s = memory.begin_step(inner, s)
        inner = inner_step(u if x is None else u[..., : -x.shape[-1]], _with_output(inner, s))
        if perturbation is not None:
            inner = _with_output(inner, self.cell.output(inner) + perturbation)
        return inner, *self.past.step(self, memory, s, self.cell.output(inner), x)

    def _drive(self, xs: Tensor) -> tuple[Tensor, Step]:
        """Return the drive of the cell, followed by the inputs if the past needs them, and the step."""
        us, inner_step = prepared_steps(self.cell, xs)
        return torch.cat([us, xs], dim=-1) if self.past.needs_inputs else us, inner_step


def _hidden(cell: Cell, state: State) -> Tensor:
    """Return the part of the state that attention replaces, or raise."""
    h = cell.output(state)
    hidden = state if isinstance(state, Tensor) else getattr(state, "h", None)
    if hidden is not h or h.dim() != 2 or h.is_complex():
        raise ValueError(
            f"Attention needs a cell whose output is a real tensor (batch, features) of its state, as of Elman, LSTM "
            f"and GRU cells, but that of this {type(cell).__name__} is not."
        )
    return h


def _with_output(inner: State, s: Tensor) -> State:
    """Return the state of a cell with s in place of its h."""
    return s if isinstance(inner, Tensor) else inner._replace(h=s)
