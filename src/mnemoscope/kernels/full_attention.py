"""Attention to all past states as one operator, without a graph per step (Kerg, Eq 4.4.1-2).

A step computes h and a query q from s_{t-1}, stores the row [h; key], attends to all rows, and returns
`s_t = scale (h_t + c_t)`. It stores its query, its context c and the norm of its softmax, but no weights: the backward
pass recomputes them, so that memory is linear in time.

With g the gradient of c_t, a the weights and v_i the values, the gradient of the score of row i is
`de_i = a_i (v_i - c_t) . g`. The gradient of the query is linear in g: `dq = M_t g`, with
`M_t = sum_i a_i (de_i/dq) (v_i - c_t)^T`. None of M_t depends on later gradients, so that a GPU computes the M_t of a
chunk of steps at the same time, and the steps that follow each other have a cost that does not grow with the history
(`triton_full_attention`). The gradients of the rows before the chunk are sums over its steps, again at the same time.
"""

from __future__ import annotations

from types import ModuleType

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.attention_scans import Weights
from mnemoscope.kernels.full_attention_cpu import backward_on_cpu, forward_on_cpu
from mnemoscope.kernels.full_attention_types import FullAttention, Trace
from mnemoscope.kernels.history import HistoryStart, Passes, history_scan


def full_attention_scan(
    us: Float[Tensor, "time batch gates"], start: HistoryStart, weights: Weights, options: FullAttention
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Return the outputs s, and h, c and the rows (batch, slots, 2 hidden) after the last step."""
    return history_scan(_PASSES, us, start, weights, options)


def _kernels() -> ModuleType:
    from mnemoscope.kernels import triton_full_attention

    return triton_full_attention


_PASSES = Passes(Trace, forward_on_cpu, backward_on_cpu, _kernels, query_from_h=False)
