"""Sparse attentive backtracking (Ke et al. 2018): sparse storage, sparse attention, and truncated gradients.

Beyond a short window the gradient flows back through attention only.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.cells.state import State, map_state
from mnemoscope.memory.attention.alignment import Alignment, Separable
from mnemoscope.memory.attention.normalisation import TopK
from mnemoscope.memory.attention.past import ALIGNMENTS, AttentiveCell, Past
from mnemoscope.memory.attention.scan_memory import close_history, open_history


class BacktrackingState(NamedTuple):
    """State of a cell with sparse attentive backtracking."""

    inner: State
    """State of the wrapped cell, with its h before attention."""
    s: Float[Tensor, "batch features"]
    """h plus the context: the cell reads it in place of h."""
    c: Float[Tensor, "batch features"]
    """The context of the last step."""
    rows: Float[Tensor, "batch slots width"]
    """The stored states, oldest first, each with its key."""
    filled: Float[Tensor, "batch slots"]
    """1 where a slot holds a state, 0 where it is empty."""
    phase: Float[Tensor, "batch 1"]
    """Number of steps taken, modulo `SparseBacktracking.period`."""

    @property
    def output(self) -> Float[Tensor, "batch features"]:
        """Input of the readout: [s; c]."""
        return torch.cat([self.s, self.c], dim=-1)


@dataclass(frozen=True)
class SparseBacktracking(Past):
    """Sparse storage and sparse attention (SAB: Ke et al. 2018).

    A state is stored every `attend_every` steps, and each step attends to the `top_k` stored states with the highest
    scores. The query comes from h, `s = h + c`, the readout sees [s; c], and s is stored. The gradient through the
    recurrent state, with all of its parts, ends every `truncate` steps; the gradient through stored states does not.
    While at most `top_k` states are stored, the weights are a softmax over all of them.

    Args:
        attend_every: number of steps from one stored state to the next.
        top_k: number of stored states that get attention.
        truncate: number of steps that the gradient flows back through the recurrent state; None: all. The first state
            of a scan gets no such gradient if the number of steps before it is a multiple of `truncate`.
        score: "additive": the `alignment` of `Attentive`, which depends on h. "released": the released code, in which
            the score does not depend on h once the threshold is subtracted, `top_k - 1` weights are positive, the
            initial state counts as stored, and the weights are the scores themselves while at most `top_k` states are
            stored. (The released code truncates one step earlier: its first window is one step shorter.)

    >>> SparseBacktracking(attend_every=0)
    Traceback (most recent call last):
    ...
    ValueError: attend_every must be a number of steps from 1 on, but is 0.

    """

    attend_every: int = 10
    top_k: int = 5
    truncate: int | None = 10
    score: str = "additive"

    grows = True

    def __post_init__(self) -> None:
        least = {"attend_every": 1, "top_k": 2 if self.score == "released" else 1, "truncate": 1}
        for name, low in least.items():
            value = getattr(self, name)
            if value is None and name == "truncate":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < low:
                kind = "of stored states" if name == "top_k" else "of steps"
                raise ValueError(f"{name} must be a number {kind} from {low} on, but is {value!r}.")
        if self.score not in ("additive", "released"):
            raise ValueError(f'score must be "additive" or "released", but is {self.score!r}.')

    @property
    def period(self) -> int:
        """Number of steps after which storing and truncation coincide again."""
        return lcm(self.attend_every, self.truncate or 1)

    def alignment(self, kind: str, size: int, heads: int) -> Alignment:
        normalise = TopK(self.top_k, self.score == "released")
        return (Separable if self.score == "released" else ALIGNMENTS[kind])(size, heads, normalise)

    def initial_state(self, inner: State, s: Tensor, width: int) -> BacktrackingState:
        slots = int(self.score == "released")  # the initial state; its row is 0, as the state is
        rows, filled = s.new_zeros(len(s), slots, width), s.new_ones(len(s), slots)
        return BacktrackingState(inner, s, torch.zeros_like(s), rows, filled, s.new_zeros(len(s), 1))

    def step_memory(self, alignment: Alignment, state: BacktrackingState) -> _StepMemory:
        return _StepMemory(self, alignment, state)

    def scan_memory(
        self, alignment: Alignment, state: BacktrackingState, length: int, mask: Tensor | None
    ) -> _ScanMemory:
        return _ScanMemory(self, alignment, state, length, mask)

    def step(
        self, net: AttentiveCell, memory: _StepMemory | _ScanMemory, s: Tensor, h: Tensor, x: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Attend with h to the stored states, then store s if it is due."""
        c, weights = memory.attend(net.alignment.query(h))
        s = net.macro(h, c)
        if memory.due():
            memory.store(net.alignment.row(s))
        return s, torch.cat([s, c], dim=-1), weights

    def ends(self, phase: Tensor) -> Bool[Tensor, " ..."]:
        """Return True where the gradient through the recurrent state ends before the step."""
        return torch.zeros_like(phase, dtype=torch.bool) if self.truncate is None else phase % self.truncate == 0

    def stores(self, phase: Tensor) -> Bool[Tensor, " ..."]:
        """Return True where the state after the step is stored."""
        return (phase + 1) % self.attend_every == 0


class _StepMemory:
    """The memory of one step: the stored states are rows of the state."""

    def __init__(self, past: SparseBacktracking, alignment: Alignment, state: BacktrackingState) -> None:
        self.past, self.alignment = past, alignment
        self.rows, self.filled, self.phase = state.rows, state.filled, state.phase

    def begin_step(self, inner: State, s: Tensor) -> tuple[State, Tensor]:
        return _detached(self.past.ends(self.phase)[:, 0], (inner, s))

    def attend(self, query: Tensor) -> tuple[Tensor, Tensor]:
        return self.alignment.attend(query, self.rows.transpose(0, 1), (self.filled > 0).T)

    def due(self) -> bool:
        return bool(self.past.stores(self.phase).any())

    def store(self, row: Float[Tensor, "batch width"]) -> None:
        """Append the row to the stored states of each sequence that stores at this step."""
        due, slots = self.past.stores(self.phase), self.rows.shape[1]
        before = self.filled.sum(1, keepdim=True)
        after = before + due
        position = torch.arange(max(slots, int(after.max())), device=row.device)
        rows = torch.cat([self.rows, row.unsqueeze(1)], dim=1)
        source = torch.where((position == before) & due, slots, position.clamp(max=slots))
        rows = rows.gather(1, source.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))
        self.rows = rows.masked_fill((position >= after).unsqueeze(-1), 0.0)
        self.filled = (position < after).to(self.filled)

    def state(self, inner: State, s: Tensor, output: Tensor) -> BacktrackingState:
        phase = (self.phase + 1) % self.past.period
        return BacktrackingState(inner, s, output[:, s.shape[1] :], self.rows, self.filled, phase)


class _ScanMemory:
    """The memory of a scan.

    A position of the history is written if any sequence stores; the other sequences have an empty row there. This
    happens only with masks or states of different phases.
    """

    def __init__(
        self,
        past: SparseBacktracking,
        alignment: Alignment,
        state: BacktrackingState,
        length: int,
        mask: Bool[Tensor, "time batch"] | None,
    ) -> None:
        self.alignment, self._size = alignment, state.s.shape[1]
        taken = torch.ones(length, len(state.s), dtype=torch.bool, device=state.s.device) if mask is None else mask
        steps = taken.cumsum(0)
        phases = (state.phase.T + (steps - taken.long()).to(state.phase)) % past.period
        self._last_phase = (state.phase + steps[-1:].T.to(state.phase)) % past.period
        self._stores, self._ends = taken & past.stores(phases), taken & past.ends(phases)
        writes = self._stores.any(1)
        self._writes, self._some_end = writes.tolist(), self._ends.any(1).tolist()
        self._all_end = self._ends.all(1).tolist()
        self._valid = torch.cat([state.filled.T > 0, self._stores[writes]])
        # a step does not know the mask: it adds an empty slot for a masked sequence that would have stored
        before = self._stores.cumsum(0) - self._stores.long() + state.filled.sum(1).long()
        self._slots = max(state.rows.shape[1], int((before + past.stores(phases)).max()))
        if mask is not None:
            self._valid = pad(self._valid, (0, 0, 0, 1))
        self._all_valid = bool(self._valid.all())
        self.history = open_history(state.rows, len(self._valid) - state.rows.shape[1])
        self.written = state.rows.shape[1]
        self.t = -1

    def begin_step(self, inner: State, s: Tensor) -> tuple[State, Tensor]:
        self.t += 1
        if not self._some_end[self.t]:
            return inner, s
        return _detached(None if self._all_end[self.t] else self._ends[self.t], (inner, s))

    def attend(self, query: Tensor) -> tuple[Tensor, Tensor]:
        valid = None if self._all_valid else self._valid[: self.written]
        return self.history.attend(self.alignment, query, self.written, valid)

    def due(self) -> bool:
        return self._writes[self.t]

    def store(self, row: Float[Tensor, "batch width"]) -> None:
        if not self._all_valid:
            row = row.masked_fill(~self._stores[self.t].unsqueeze(-1), 0.0)
        self.history.write(self.written, row)
        self.written += 1

    def close(self, outputs: Float[Tensor, "time batch features"], inner: State) -> tuple[Tensor, BacktrackingState]:
        """Return the outputs and the last state, in which the stored states of each sequence are contiguous."""
        stored = self._valid.sum(0)
        positions = (~self._valid).to(torch.uint8).argsort(dim=0, stable=True)[: self._slots]
        filled = torch.arange(self._slots, device=stored.device).unsqueeze(1) < stored
        outputs, rows, inner = close_history(self.history, outputs, positions, inner)
        s, c = outputs[-1][:, : self._size], outputs[-1][:, self._size :]
        return outputs, BacktrackingState(inner, s, c, rows, filled.T.to(s), self._last_phase)


def _detached(where: Bool[Tensor, " batch"] | None, state: State) -> State:
    """Detach the state where `where` is True, or everywhere if it is None."""
    if where is None:
        return map_state(Tensor.detach, state)
    return map_state(lambda x: torch.where(where.view(-1, *(1,) * (x.dim() - 1)), x.detach(), x), state)
