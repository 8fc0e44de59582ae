"""A cell with screened attention to its past as one operator, without a graph per step (Kerg, Algorithm 1).

The slots are a ring of the newest states and behind it the relevant set, each state as a row [h; key]. A step computes
h and a query from s_{t-1}, moves the row that the ring gives up to the least relevant place if it is more relevant,
writes its own row in the ring, attends to all rows, and gives `s_t = scale (h_t + c_t)`.

The backward pass holds the slots' rows and their gradients and undoes the moves in reverse: when a step takes its row
out of the ring, every later use of it has been counted, wherever the row lay. What was dropped comes back from the list
of all rows. So per step are kept its row, its query, its weights and one move; the products that give the gradients of
matrices are taken once, after the loop.

A slot's score is -inf where it is empty.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.activation import ACTIVATIONS
from mnemoscope.kernels.batched_gradients import loop_over_batch
from mnemoscope.kernels.screened_cpu import backward_on_cpu, forward_on_cpu
from mnemoscope.kernels.screened_types import Pulled, Screening, Start, Trace, Weights
from mnemoscope.kernels.threads import threads_that_help

_HAS_TRITON = find_spec("triton") is not None


def no_screened_scan(device: torch.device, dtype: torch.dtype, how: Screening, hidden: int) -> str | None:
    """Why there is no fused screened scan for these, or None if there is one."""
    if how.cell != "lstm" and how.cell not in ACTIVATIONS:
        return f"{how.cell!r} has no description in mnemoscope.kernels.ACTIVATIONS"
    if device.type == "cpu":
        return None if dtype in (torch.float32, torch.float64) else f"it computes in float32 or float64, not in {dtype}"
    if device.type != "cuda":
        return f"there is no screened scan for the device {device.type}"
    if not _HAS_TRITON:
        return "the screened scan for CUDA needs Triton, which is not installed"
    from mnemoscope.kernels import triton_screened

    return triton_screened.unavailable(device, dtype, how, hidden)


def screened_scan(
    us: Float[Tensor, "time batch gates"], start: Start, weights: Weights, how: Screening
) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor]:
    """Outputs s (time, batch, hidden); then of the last step h, c, the rows (batch, slots, 2 hidden), oldest first in
    the ring, and their scores (batch, slots).
    """
    outputs, h, c, rows, score = _Screened.apply(us, start.s, start.c, start.rows, *weights, start.score, how)  # pyright: ignore[reportGeneralTypeIssues]
    return outputs, h, c, rows, score


class _Screened(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        us: Tensor,
        s: Tensor,
        c: Tensor | None,
        rows: Tensor,
        recurrent: Tensor,
        bias: Tensor | None,
        query: Tensor,
        key: Tensor,
        direction: Tensor | None,
        score: Tensor,
        how: Screening,
    ) -> tuple[Tensor | None, ...]:
        start, weights = Start(s, c, rows, score), Weights(recurrent, bias, query, key, direction)
        if us.is_cuda:
            from mnemoscope.kernels import triton_screened

            trace = triton_screened.forward(us, start, weights, how)
        else:
            with threads_that_help(s):
                trace = forward_on_cpu(us, start, weights, how)
        ctx.how = how
        ctx.save_for_backward(us, *start, *weights, *trace)
        size = s.shape[-1]
        order = _oldest_first(len(us), how, s.device)
        last, scores = trace.last[order].transpose(0, 1).contiguous(), trace.score[order].T.contiguous()
        ctx.mark_non_differentiable(scores)
        c = None if trace.c is None else trace.c[-1].clone()
        return trace.outputs, trace.rows[-1, :, :size].clone(), c, last, scores

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "Second derivatives through a shared history of attention are not computed. Ask scan for the steps "
                "themselves: backend='loop'."
            )
        how: Screening = ctx.how
        us, *saved = ctx.saved_tensors
        start, weights, trace = Start(*saved[:4]), Weights(*saved[4:9]), Trace(*saved[9:])
        order = _oldest_first(len(us), how, us.device)

        def pull(outputs: Tensor, h: Tensor, c: Tensor | None, rows: Tensor) -> tuple[Tensor | None, ...]:
            into_rows = torch.empty_like(trace.last)
            into_rows[order] = rows.transpose(0, 1)
            given = (outputs, h, c, into_rows)
            if us.is_cuda:
                from mnemoscope.kernels import triton_screened

                pulled = triton_screened.backward(given, start, weights, how, trace)
                return _products(pulled, start, trace, weights, how)
            with threads_that_help(start.s):
                pulled = backward_on_cpu(given, start, weights, how, trace)
                return _products(pulled, start, trace, weights, how)

        with torch.autocast(us.device.type, enabled=False):
            return (*loop_over_batch(pull, *grads[:4]), None, None)


def _products(
    pulled: Pulled, start: Start, trace: Trace, weights: Weights, how: Screening
) -> tuple[Tensor | None, ...]:
    """The gradients of drive, start and weights."""
    size = start.s.shape[-1]
    before = torch.cat([start.s.unsqueeze(0), trace.outputs[:-1]]).flatten(0, 1)
    hs = trace.rows[how.slots :, :, :size]
    bias = None if weights.bias is None else ACTIVATIONS[how.cell].bias_gradient(pulled.drive, hs)
    # a key of the start was formed before the scan: its gradient is that of its row
    return (
        pulled.drive,
        pulled.s,
        pulled.c,
        pulled.rows.transpose(0, 1),
        pulled.drive.flatten(0, 1).T @ before,
        bias,
        pulled.queries.flatten(0, 1).T @ before,
        pulled.keys.flatten(0, 1).T @ hs.flatten(0, 1),
        pulled.direction,
    )


def _oldest_first(time: int, how: Screening, device: torch.device) -> Tensor:
    """The ring's slots from the oldest on, then the relevant ones."""
    ring = (torch.arange(how.short_term, device=device) + time) % how.short_term
    return torch.cat([ring, torch.arange(how.short_term, how.slots, device=device)])
