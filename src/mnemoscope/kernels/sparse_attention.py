"""Sparse attentive backtracking as one operator, without a graph per step (Ke et al. 2018).

A step computes h from s_{t-1} and a query from h. It attends to the stored rows with the `top_k` largest scores, by
their excess over the next largest score; while at most `top_k` rows are stored, by a softmax over all of them. It
returns [s_t; c_t] with `s_t = scale (h_t + c_t)`, and stores the row [s_t; key] every `every` steps.

At most `top_k + 1` rows have a gradient at a step: those that were attended to, and the one of the threshold. A step
stores their positions and weights, and the backward pass reads and writes no other rows.
"""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.attention_scans import Weights, no_attention_scan
from mnemoscope.kernels.history import HistoryStart, Passes, history_scan
from mnemoscope.kernels.sparse_attention_cpu import backward_on_cpu, forward_on_cpu
from mnemoscope.kernels.sparse_attention_types import SparseAttention, Trace

MOST_STORED, MOST_CHOSEN = 8192, 32
"""Largest numbers of stored rows, and of rows with a gradient at a step, that a program on a GPU takes."""


def no_sparse_attention_scan(
    device: torch.device, dtype: torch.dtype, options: SparseAttention, hidden: int, stored: int
) -> str | None:
    """Return the reason why the fused scan does not take these arguments, or None if it does."""
    reason = no_attention_scan("scan with sparse attention", device, dtype, options.cell, hidden)
    if reason is None and device.type != "cpu" and (stored > MOST_STORED or options.top_k >= MOST_CHOSEN):
        return (
            f"the scan with sparse attention on a GPU takes up to {MOST_STORED} stored states and top_k < {MOST_CHOSEN}"
        )
    return reason


def sparse_attention_scan(
    us: Float[Tensor, "time batch gates"], start: HistoryStart, weights: Weights, options: SparseAttention
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Return the outputs [s; context], and h, the memory of an LSTM and the rows after the last step."""
    return history_scan(_PASSES, us, start, weights, options)


def _kernels() -> ModuleType:
    from mnemoscope.kernels import triton_sparse_attention

    return triton_sparse_attention


_PASSES = Passes(Trace, forward_on_cpu, backward_on_cpu, _kernels, query_from_h=True)
