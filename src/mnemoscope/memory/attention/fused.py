"""The fused scans of attention around Elman and LSTM cells, and the networks that support them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from mnemoscope.cells import LSTM, Elman
from mnemoscope.cells.fast_path import FastPath, NoFastPath, is_unmodified
from mnemoscope.cells.lstm import LSTMState
from mnemoscope.cells.nonlinearities import FusableNonlinearity
from mnemoscope.cells.state import State, leaves
from mnemoscope.kernels import (
    full_attention_scan,
    no_attention_scan,
    no_screened_scan,
    no_sparse_attention_scan,
    screened_scan,
    sparse_attention_scan,
)
from mnemoscope.kernels.attention_scans import Weights
from mnemoscope.kernels.full_attention_types import FullAttention
from mnemoscope.kernels.history import HistoryStart
from mnemoscope.kernels.screened_types import EMPTY, Screening, Start
from mnemoscope.kernels.sparse_attention_types import SparseAttention
from mnemoscope.memory.attention.alignment import Additive, Alignment, ScaledDot
from mnemoscope.memory.attention.backtracking import BacktrackingState, SparseBacktracking
from mnemoscope.memory.attention.normalisation import Softmax, TopK
from mnemoscope.memory.attention.past import AttentiveCell, Past
from mnemoscope.memory.attention.retention import FullHistory, RelevanceScreen
from mnemoscope.memory.attention.state import AttentiveState


def fused_scan(net: AttentiveCell, xs: Tensor, state: Any, mask: Tensor | None) -> FastPath | NoFastPath:
    """Return the scan as one operator, or the reason why the steps are needed."""
    h = state.s
    if not _plain(net.alignment, net.past) or net.mix is not None or not is_unmodified(net, type(net)):
        return NoFastPath("only attention with one head, linear query and key, and the sum of h and context is fused")
    if mask is not None or torch.is_autocast_enabled(h.device.type) or torch.compiler.is_compiling():
        return NoFastPath("masks, autocast and torch.compile need the steps")
    cell = _cell_name(net)
    if cell is None:
        return NoFastPath(f"{type(net.cell).__name__} is not fused with attention")
    dtypes = {tensor.dtype for tensor in (xs, *leaves(state), *net.parameters())}
    if len(dtypes) > 1:
        return NoFastPath(f"inputs, state and weights have several dtypes: {dtypes}")
    past = net.past
    if type(past) is RelevanceScreen:
        return _screened(net, past, cell, xs, state)
    if type(past) is FullHistory:
        return _full(net, cell, xs, state)
    if type(past) is SparseBacktracking:
        return _sparse(net, past, cell, xs, state)
    return NoFastPath(f"attention with a {type(past).__name__} is not fused")


def _plain(alignment: Alignment, past: Past) -> bool:
    """Whether an alignment has the maps of its class, and the weights of the past; users may replace them."""
    maps = (alignment.query, alignment.key)
    return (
        is_unmodified(alignment, Additive, ScaledDot)
        and alignment.heads == 1
        and alignment.normalise == (TopK(past.top_k) if isinstance(past, SparseBacktracking) else Softmax())
        and all(is_unmodified(linear, nn.Linear) and linear.bias is None for linear in maps)
    )


def _cell_name(net: AttentiveCell) -> str | None:
    """Return "lstm" or the name of the nonlinearity; None if the cell is not fused."""
    cell = net.cell
    if type(cell) is LSTM and cell.weight_hr is None:
        return "lstm"
    if type(cell) is Elman and isinstance(cell.phi, FusableNonlinearity) and cell.phi.description() is not None:
        return cell.phi.activation.name
    return None


def _path(scan: str, reason: str | None, cell: str, h: Tensor, run: Callable[[], Any]) -> FastPath | NoFastPath:
    return NoFastPath(reason) if reason is not None else FastPath(f"{scan} ({cell}, {h.device.type})", run)


def _drive(net: AttentiveCell, xs: Tensor, state: Any) -> tuple[Tensor, Tensor | None, Weights]:
    """Return the drive of the cell, the memory of an LSTM, and the parameters of the scan."""
    cell, alignment = net.cell, net.alignment
    if isinstance(cell, LSTM):
        biases = [bias for bias in (cell.bias_ih, cell.bias_hh) if bias is not None]
        bias = sum(biases[1:], biases[0]) if biases else None
        us, recurrent, bias_of_phi, c = linear(xs, cell.weight_ih, bias), cell.weight_hh, None, state.inner.c
    else:
        assert isinstance(cell, Elman)
        us, recurrent, bias_of_phi, c = cell.drive(xs), cell.connectivity(), getattr(cell.phi, "bias", None), None
    direction = alignment.direction if isinstance(alignment, Additive) else None
    return us, c, Weights(recurrent, bias_of_phi, alignment.query.weight, alignment.key.weight, direction)  # type: ignore


def _inner(h: Tensor, c: Tensor | None) -> State:
    return h if c is None else LSTMState(h, c)


def _screened(
    net: AttentiveCell, past: RelevanceScreen, cell: str, xs: Tensor, state: AttentiveState
) -> FastPath | NoFastPath:
    if past.score not in ("published", "normalised"):
        return NoFastPath("only screens that score attention are fused")
    if not _empty_or_filled(state.filled):
        return NoFastPath("a slot is filled in part")
    options = Screening(cell, past.short_term, past.relevant, past.score == "normalised", float(net.scale))
    reason = no_screened_scan(state.s.device, state.s.dtype, options, state.s.shape[1])

    def run() -> tuple[Tensor, AttentiveState]:
        us, c, weights = _drive(net, xs, state)
        score = state.score.detach().masked_fill(state.filled <= 0, EMPTY)
        outputs, h, c, rows, score = screened_scan(us, Start(state.s, c, state.rows, score), weights, options)
        empty = score == EMPTY
        slots = (score.masked_fill(empty, 0.0), (~empty).to(rows.dtype))
        return outputs, AttentiveState(_inner(h, c), outputs[-1].clone(), rows, *slots)

    return _path("screened scan", reason, cell, state.s, run)


def _full(net: AttentiveCell, cell: str, xs: Tensor, state: AttentiveState) -> FastPath | NoFastPath:
    full = _all_ones(state.filled)
    if not full and not _empty_or_filled(state.filled):
        return NoFastPath("a slot is filled in part")
    reason = no_attention_scan("scan with full attention", state.s.device, state.s.dtype, cell, state.s.shape[1])

    def run() -> tuple[Tensor, AttentiveState]:
        us, c, weights = _drive(net, xs, state)
        start = HistoryStart(state.s, c, state.rows, None if full else state.filled.detach())
        outputs, h, c, rows = full_attention_scan(us, start, weights, FullAttention(cell, float(net.scale)))
        slots = (pad(state.score.detach(), (0, len(xs))), pad(state.filled.detach(), (0, len(xs)), value=1.0))
        return outputs, AttentiveState(_inner(h, c), outputs[-1].clone(), rows, *slots)

    return _path("scan with full attention", reason, cell, state.s, run)


def _sparse(
    net: AttentiveCell, past: SparseBacktracking, cell: str, xs: Tensor, state: BacktrackingState
) -> FastPath | NoFastPath:
    if not _all_ones(state.filled):
        return NoFastPath("some slots of the state are empty")
    first = state.phase.detach()
    phase = int(first[0, 0]) if len(first) else 0
    if not bool((first == phase).all()):
        return NoFastPath("the sequences store their states at different steps")
    options = SparseAttention(cell, float(net.scale), past.attend_every, past.top_k, past.truncate, phase)
    slots = state.rows.shape[1] + options.stored(len(xs))
    reason = no_sparse_attention_scan(state.s.device, state.s.dtype, options, state.s.shape[1], slots)

    def run() -> tuple[Tensor, BacktrackingState]:
        us, c, weights = _drive(net, xs, state)
        outputs, h, c, rows = sparse_attention_scan(us, HistoryStart(state.s, c, state.rows), weights, options)
        s, context = outputs[-1].chunk(2, dim=-1)
        filled = rows.new_ones(rows.shape[:2])
        last = (first + len(xs)) % past.period
        return outputs, BacktrackingState(_inner(h, c), s, context, rows, filled, last)

    return _path("scan with sparse attention", reason, cell, state.s, run)


def _empty_or_filled(filled: Tensor) -> bool:
    """Whether no slot is filled in part; a search for fixed points may try such states."""
    return bool(((filled == 0) | (filled == 1)).all())


def _all_ones(filled: Tensor) -> bool:
    return not filled.numel() or bool((filled == 1).all())
