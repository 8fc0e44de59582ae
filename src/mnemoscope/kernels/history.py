"""The operator of scans that keep all of their rows (`full_attention`, `sparse_attention`), and its gradients."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.activation import ACTIVATIONS
from mnemoscope.kernels.attention_scans import Weights, refuse_second_derivatives
from mnemoscope.kernels.batched_gradients import loop_over_batch
from mnemoscope.kernels.devices import useful_threads


class HistoryStart(NamedTuple):
    """The state before the first step."""

    s: Float[Tensor, "batch hidden"]
    c: Float[Tensor, "batch hidden"] | None
    """Memory of an LSTM."""
    rows: Float[Tensor, "batch slots width"]
    """The rows before the first step."""
    filled: Float[Tensor, "batch slots"] | None = None
    """1 where a row of the start holds a state, 0 where it is empty; None: none is empty."""


OutputGradients = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]
"""Gradients of the outputs, of the last h and c, and of the rows."""


class HistoryGradients(NamedTuple):
    """Results of the backward pass."""

    drive: Float[Tensor, "time batch gates"]
    queries: Float[Tensor, "time batch hidden"]
    direction: Float[Tensor, " hidden"] | None
    s: Float[Tensor, "batch hidden"]
    c: Float[Tensor, "batch hidden"] | None
    rows: Tensor
    """(batch, slots, 2 hidden); of the rows that the scan stored, only the gradients of the keys are needed."""


class Passes(NamedTuple):
    """The two passes of a scan. A trace, the result of the first, has outputs that begin with s, hs, rows and c."""

    trace: type
    forward_on_cpu: Callable[..., Any]
    """Returns the trace from drive, start, weights and options."""
    backward_on_cpu: Callable[..., HistoryGradients]
    """Returns the gradients from the output gradients, start, weights, options and trace."""
    kernels: Callable[[], ModuleType]
    """Imports the module with `forward` and `backward` for a GPU, which needs Triton."""
    query_from_h: bool
    """Whether the query is a map of h_t; otherwise of s_{t-1}."""


def history_scan(
    passes: Passes, us: Float[Tensor, "time batch gates"], start: HistoryStart, weights: Weights, options: Any
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Return the outputs, and h, c and the rows (batch, slots, 2 hidden) after the last step."""
    outputs, h, c, rows = _HistoryScan.apply(passes, options, us, *start, *weights)  # pyright: ignore[reportGeneralTypeIssues]
    return outputs, h, c, rows


class _HistoryScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, passes: Passes, options: Any, us: Tensor, *tensors: Any) -> tuple[Tensor | None, ...]:
        start, weights = HistoryStart(*tensors[:4]), Weights(*tensors[4:])
        with useful_threads(start.s):
            run = passes.kernels().forward if us.is_cuda else passes.forward_on_cpu
            trace = run(us, start, weights, options)
        ctx.passes, ctx.options = passes, options
        ctx.save_for_backward(*start, *weights, *trace)
        ctx.set_materialize_grads(False)
        return trace.outputs, trace.hs[-1].clone(), None if trace.c is None else trace.c[-1].clone(), trace.rows

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        refuse_second_derivatives()
        passes, saved = ctx.passes, ctx.saved_tensors
        start, weights, trace = HistoryStart(*saved[:4]), Weights(*saved[4:9]), passes.trace(*saved[9:])

        def pull(outputs: Tensor | None, *others: Tensor | None) -> tuple[Tensor | None, ...]:
            with useful_threads(start.s):
                outputs = torch.zeros_like(trace.outputs) if outputs is None else outputs
                run = passes.kernels().backward if outputs.is_cuda else passes.backward_on_cpu
                gradients = run((outputs, *others), start, weights, ctx.options, trace)
                return _products(gradients, start, trace, weights, ctx.options.cell, passes.query_from_h)

        with torch.autocast(start.s.device.type, enabled=False):
            return (None, None, *loop_over_batch(pull, *grads))


def _products(
    gradients: HistoryGradients, start: HistoryStart, trace: Any, weights: Weights, cell: str, query_from_h: bool
) -> tuple[Tensor | None, ...]:
    """Return the gradients of drive, start and weights."""
    size, given = start.s.shape[-1], start.rows.shape[1]
    before = torch.cat([start.s.unsqueeze(0), trace.outputs[:-1, :, :size]]).flatten(0, 1)
    queried = trace.hs.flatten(0, 1) if query_from_h else before
    stored, keys = trace.rows[:, given:, :size], gradients.rows[:, given:, size:]
    bias = None if weights.bias is None else ACTIVATIONS[cell].bias_gradient(gradients.drive, trace.hs)
    # keys of the start were computed before the scan: their gradient is part of that of their rows
    return (
        gradients.drive,
        gradients.s,
        gradients.c,
        gradients.rows[:, :given],
        None,
        gradients.drive.flatten(0, 1).T @ before,
        bias,
        gradients.queries.flatten(0, 1).T @ queried,
        keys.flatten(0, 1).T @ stored.flatten(0, 1),
        gradients.direction,
    )
