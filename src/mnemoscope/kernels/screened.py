"""Attention with a relevance screen as one operator, without a graph per step (Kerg, Algorithm 1).

The slots are a ring buffer of the newest states, followed by the relevant set; each state is a row [h; key]. A step
computes h and a query from s_{t-1}. The row that leaves the ring replaces the least relevant row if it is more
relevant. The step then writes its row to the ring, attends to all rows, and returns `s_t = scale (h_t + c_t)`.

The backward pass keeps the rows in the slots and their gradients, and undoes the moves in reverse: when a step takes
its row out of the ring, all later uses of the row have been counted, in whichever slot it was. Dropped rows are
restored from the list of all rows. So each step stores its row, its query, its weights and one move. The gradients of
matrices are one product each, after the loop.

The score of an empty slot is -inf.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.activation import ACTIVATIONS
from mnemoscope.kernels.attention_scans import Weights, no_attention_scan, refuse_second_derivatives
from mnemoscope.kernels.batched_gradients import loop_over_batch
from mnemoscope.kernels.devices import useful_threads
from mnemoscope.kernels.screened_cpu import backward_on_cpu, forward_on_cpu
from mnemoscope.kernels.screened_types import ScanGradients, Screening, Start, Trace

MOST_SLOTS = 64
"""Largest number of slots that a program on a GPU holds in registers."""


def no_screened_scan(device: torch.device, dtype: torch.dtype, options: Screening, hidden: int) -> str | None:
    """Return the reason why there is no fused screened scan for these arguments, or None if there is one."""
    reason = no_attention_scan("screened scan", device, dtype, options.cell, hidden)
    if reason is None and device.type != "cpu" and options.slots > MOST_SLOTS:
        return f"the screened scan on a GPU takes up to {MOST_SLOTS} slots"
    return reason


def screened_scan(
    us: Float[Tensor, "time batch gates"], start: Start, weights: Weights, options: Screening
) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor]:
    """Return the outputs s (time, batch, hidden), and h, c, the rows and their scores after the last step.

    Rows are (batch, slots, 2 hidden), oldest first in the ring; scores are (batch, slots).
    """
    outputs, h, c, rows, score = _Screened.apply(options, us, *start, *weights)  # pyright: ignore[reportGeneralTypeIssues]
    return outputs, h, c, rows, score


class _Screened(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: Screening, us: Tensor, *tensors: Any) -> tuple[Tensor | None, ...]:
        start, weights = Start(*tensors[:4]), Weights(*tensors[4:])
        run = _triton().forward if us.is_cuda else forward_on_cpu
        with useful_threads(start.s):
            trace = run(us, start, weights, options)
        ctx.options = options
        ctx.save_for_backward(us, *start, *weights, *trace)
        size = start.s.shape[-1]
        order = _oldest_first(len(us), options, us.device)
        last, scores = trace.last[order].transpose(0, 1).contiguous(), trace.score[order].T.contiguous()
        ctx.mark_non_differentiable(scores)
        c = None if trace.c is None else trace.c[-1].clone()
        return trace.outputs, trace.rows[-1, :, :size].clone(), c, last, scores

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        refuse_second_derivatives()
        options: Screening = ctx.options
        us, *saved = ctx.saved_tensors
        start, weights, trace = Start(*saved[:4]), Weights(*saved[4:9]), Trace(*saved[9:])
        order = _oldest_first(len(us), options, us.device)

        def pull(outputs: Tensor, h: Tensor, c: Tensor | None, rows: Tensor) -> tuple[Tensor | None, ...]:
            into_rows = torch.empty_like(trace.last)
            into_rows[order] = rows.transpose(0, 1)
            run = _triton().backward if us.is_cuda else backward_on_cpu
            with useful_threads(start.s):
                gradients = run((outputs, h, c, into_rows), start, weights, options, trace)
                return _products(gradients, start, trace, weights, options)

        with torch.autocast(us.device.type, enabled=False):
            return (None, *loop_over_batch(pull, *grads[:4]))


def _triton() -> ModuleType:
    from mnemoscope.kernels import triton_screened

    return triton_screened


def _products(
    gradients: ScanGradients, start: Start, trace: Trace, weights: Weights, options: Screening
) -> tuple[Tensor | None, ...]:
    """Return the gradients of drive, start and weights."""
    size = start.s.shape[-1]
    before = torch.cat([start.s.unsqueeze(0), trace.outputs[:-1]]).flatten(0, 1)
    hs = trace.rows[options.slots :, :, :size]
    bias = None if weights.bias is None else ACTIVATIONS[options.cell].bias_gradient(gradients.drive, hs)
    # keys of the start were computed before the scan: their gradient is part of that of their rows
    return (
        gradients.drive,
        gradients.s,
        gradients.c,
        gradients.rows.transpose(0, 1),
        None,
        gradients.drive.flatten(0, 1).T @ before,
        bias,
        gradients.queries.flatten(0, 1).T @ before,
        gradients.keys.flatten(0, 1).T @ hs.flatten(0, 1),
        gradients.direction,
    )


def _oldest_first(time: int, options: Screening, device: torch.device) -> Tensor:
    """Return the slots of the ring, oldest first, then those of the relevant set."""
    ring = (torch.arange(options.short_term, device=device) + time) % options.short_term
    return torch.cat([ring, torch.arange(options.short_term, options.slots, device=device)])
