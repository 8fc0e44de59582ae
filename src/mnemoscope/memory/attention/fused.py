"""The fused scan of screened attention around Elman and LSTM cells, and the networks that support it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mnemoscope.cells import LSTM, Elman
from mnemoscope.cells.fast_path import FastPath, NoFastPath, is_unmodified
from mnemoscope.cells.lstm import LSTMState
from mnemoscope.cells.nonlinearities import FusableNonlinearity
from mnemoscope.cells.state import leaves
from mnemoscope.kernels import no_screened_scan, screened_scan
from mnemoscope.kernels.screened_types import EMPTY, Screening, Start, Weights
from mnemoscope.memory.attention.alignment import Additive, Alignment, ScaledDot
from mnemoscope.memory.attention.normalisation import Softmax
from mnemoscope.memory.attention.past import AttentiveCell
from mnemoscope.memory.attention.retention import RelevanceScreen
from mnemoscope.memory.attention.state import AttentiveState


def fused_screen(net: AttentiveCell, xs: Tensor, state: Any, mask: Tensor | None) -> FastPath | NoFastPath:
    """Return the scan as one operator, or the reason why the steps are needed."""
    cell, past, h = net.cell, net.past, state.s
    if type(past) is not RelevanceScreen or past.score not in ("published", "normalised"):
        return NoFastPath("only screens that score attention are fused")
    if not _plain(net.alignment) or net.mix is not None or not is_unmodified(net, type(net)):
        return NoFastPath("only attention with one head, linear query and key, and the sum of h and context is fused")
    if mask is not None or torch.is_autocast_enabled(h.device.type) or torch.compiler.is_compiling():
        return NoFastPath("masks, autocast and torch.compile need the steps")
    if type(cell) is LSTM and cell.weight_hr is None:
        name = "lstm"
    elif type(cell) is Elman and isinstance(cell.phi, FusableNonlinearity) and cell.phi.description() is not None:
        name = cell.phi.activation.name
    else:
        return NoFastPath(f"{type(cell).__name__} is not fused with attention")
    options = Screening(name, past.short_term, past.relevant, past.score == "normalised", float(net.scale))
    dtypes = {tensor.dtype for tensor in (xs, *leaves(state), *net.parameters())}
    if len(dtypes) > 1:
        return NoFastPath(f"inputs, state and weights have several dtypes: {dtypes}")
    if not bool(((state.filled == 0) | (state.filled == 1)).all()):  # a search for fixed points may try such states
        return NoFastPath("a slot is filled in part")
    reason = no_screened_scan(h.device, h.dtype, options, h.shape[1])
    if reason is not None:
        return NoFastPath(reason)
    return FastPath(f"screened scan ({name}, {h.device.type})", lambda: _run(net, options, xs, state))


def _plain(alignment: Alignment) -> bool:
    """Whether an alignment has the maps of its class; users may replace them."""
    maps = (alignment.query, alignment.key)
    return (
        is_unmodified(alignment, Additive, ScaledDot)
        and alignment.heads == 1
        and type(alignment.normalise) is Softmax
        and all(is_unmodified(linear, nn.Linear) and linear.bias is None for linear in maps)
    )


def _run(net: AttentiveCell, options: Screening, xs: Tensor, state: AttentiveState) -> tuple[Tensor, AttentiveState]:
    cell, alignment = net.cell, net.alignment
    if isinstance(cell, LSTM):
        biases = [bias for bias in (cell.bias_ih, cell.bias_hh) if bias is not None]
        bias = sum(biases[1:], biases[0]) if biases else None
        us, recurrent, bias_of_phi, c = linear(xs, cell.weight_ih, bias), cell.weight_hh, None, state.inner.c
    else:
        assert isinstance(cell, Elman)
        us, recurrent, bias_of_phi, c = cell.drive(xs), cell.connectivity(), getattr(cell.phi, "bias", None), None
    direction = alignment.direction if isinstance(alignment, Additive) else None
    weights = Weights(recurrent, bias_of_phi, alignment.query.weight, alignment.key.weight, direction)  # type: ignore
    score = state.score.detach().masked_fill(state.filled <= 0, EMPTY)
    outputs, h, c, rows, score = screened_scan(us, Start(state.s, c, state.rows, score), weights, options)
    inner = h if c is None else LSTMState(h, c)
    empty = score == EMPTY
    filled = (~empty).to(rows.dtype)
    return outputs, AttentiveState(inner, outputs[-1].clone(), rows, score.masked_fill(empty, 0.0), filled)
