"""Affine recurrences under `torch.compile`, as operators that it calls but does not trace.

The backward operator runs the scan again instead of keeping its intermediate results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from mnemoscope.kernels.affine_chunks import Chunks, chunked, chunked_backward

ARGUMENTS = "Tensor q, Tensor k, Tensor v, Tensor g, Tensor? a, Tensor? b, Tensor state, int micro_steps, int? chunk"


def in_graph(given: tuple[Tensor | None, ...], micro_steps: int = 0, chunk: int | None = None) -> tuple[Tensor, Tensor]:
    """Return outputs and final state of `Chunks`, or with `micro_steps` of sequences for Triton."""
    return _scan(*given, micro_steps, chunk)


@custom_op("mnemoscope::affine_scan", mutates_args=(), schema=f"({ARGUMENTS}) -> (Tensor, Tensor)")
def _scan(*arguments: Any) -> tuple[Tensor, Tensor]:
    outputs, state, _ = _run(*arguments)
    return outputs, state.clone()  # no view of an argument


@_scan.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor]:
    q, _, v, *_, state, micro_steps, _ = arguments
    return v.new_empty(*(q if micro_steps else v).shape[:-1], v.shape[-1]), torch.empty_like(state)


@custom_op(
    "mnemoscope::affine_scan_backward",
    mutates_args=(),
    schema=f"({ARGUMENTS}, Tensor into_outputs, Tensor into_state) -> Tensor[]",
)
def _gradients(*arguments: Any) -> list[Tensor]:
    _, _, pull = _run(*arguments[:-2])
    found = pull(*(into.contiguous() for into in arguments[-2:]))
    return [x.clone() for x in found if x is not None]


@_gradients.register_fake
def _(*arguments: Any) -> list[Tensor]:
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in arguments[:7] if x is not None]


def _run(*arguments: Any) -> tuple[Tensor, Tensor, Callable[[Tensor, Tensor], tuple[Tensor | None, ...]]]:
    """Return outputs, final state, and the function from their gradients to those of the arguments."""
    *given, micro_steps, chunk = arguments
    if not micro_steps:
        chunks = Chunks(*given)
        outputs, state, trace = chunked(chunks)
        return outputs, state, partial(chunked_backward, chunks, trace)
    from mnemoscope.kernels import triton_affine, triton_affine_backward

    sequences = triton_affine.Sequences(*given[:-1])
    plan = triton_affine.plan(sequences, micro_steps, chunk)
    outputs, state, kept = triton_affine.forward(sequences, given[-1], plan)
    return outputs, state, partial(triton_affine_backward.backward, sequences, kept, how=plan)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:7])
    ctx.options = inputs[7:]


def _backward(ctx: Any, *into: Tensor) -> tuple[Tensor | None, ...]:
    given = ctx.saved_tensors
    found = iter(_gradients(*given, *ctx.options, *into))
    return *(None if x is None else next(found) for x in given), None, None


_scan.register_autograd(_backward, setup_context=_save)
