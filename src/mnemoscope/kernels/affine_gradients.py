"""Affine recurrences with their backward passes written out, for autograd.

Transforms of `torch.func`, forward mode and second derivatives use the operations of torch in `affine_chunks` instead,
and `torch.compile` the operators in `affine_compiled`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import pad

from mnemoscope.kernels.affine_chunks import Chunks, Trace, chunked, chunked_backward
from mnemoscope.kernels.affine_compiled import in_graph
from mnemoscope.kernels.batched_gradients import loop_over_batch
from mnemoscope.kernels.devices import no_triton

CHUNK = 32
"""Steps of a chunk, unless it is chosen or the sequence is shorter."""


class Sequences(NamedTuple):
    """Sequences (steps, heads, features) and a state (heads, keys, values); queries have one row per token."""

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    a: Tensor | None
    b: Tensor | None
    state: Tensor


def run_in_chunks(given: Sequences, micro_steps: int, chunk: int | None) -> tuple[Tensor, Tensor]:
    """Return the outputs (tokens, heads, values) and the final state, computed by torch."""
    dtype = given.state.dtype
    q, k, v, g, a, b, state = (None if x is None else x.to(dtype) for x in given)
    assert q is not None
    steps = len(given.k)
    if micro_steps > 1:  # only the last micro-step is read
        q = pad(q.unsqueeze(1), (0, 0, 0, 0, micro_steps - 1, 0)).flatten(0, 1)
    size = min(CHUNK, steps) if chunk is None else chunk
    split = (None if x is None else _split(x, size) for x in (q, k, v, g, a, b))
    outputs, state = _run(Chunks._make((*split, state)))
    outputs = outputs[:, :, :size].flatten(1, 2)[:, :steps].transpose(0, 1)
    return outputs[micro_steps - 1 :: micro_steps].to(given.q.dtype), state


def _split(x: Tensor, size: int) -> Tensor:
    """Return a sequence as (heads, chunks, steps, features); steps without effect fill up the chunks."""
    chunks, steps = ceil(len(x) / size), 1 << (size - 1).bit_length()
    x = x.transpose(0, 1)
    x = pad(x, (0, 0, 0, chunks * size - x.shape[1])).unflatten(1, (chunks, size))
    return pad(x, (0, 0, 0, steps - size)).contiguous()


def _run(given: Chunks) -> tuple[Tensor, Tensor]:
    if torch.compiler.is_compiling():
        return in_graph(given)
    if transformed(given):
        return chunked(given)[:2]
    outputs, state = _Chunks.apply(*given)  # pyright: ignore[reportGeneralTypeIssues]
    return outputs, state


def transformed(given: tuple[Tensor | None, ...]) -> bool:
    """Whether a transform of `torch.func` or forward mode needs operations of torch."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._are_functorch_transforms_active() or any(map(_has_tangent, given))


def _has_tangent(x: Tensor | None) -> bool:
    return x is not None and forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None


class _Chunks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, Tensor]:
        outputs, state, trace = chunked(Chunks(*given))
        ctx.save_for_backward(*given, *trace)
        return outputs, state

    @staticmethod
    def backward(ctx: Any, *into: Any) -> Any:
        given, trace = Chunks(*ctx.saved_tensors[:7]), Trace(*ctx.saved_tensors[7:])
        with torch.autocast(given.q.device.type, enabled=False):
            if torch.is_grad_enabled():
                return _differentiable(lambda *x: chunked(Chunks(*x))[:2], given, ctx.needs_input_grad, into)
            needs_g = ctx.needs_input_grad[Chunks._fields.index("g")]
            return loop_over_batch(partial(chunked_backward, given, trace, needs_g=needs_g), *into)


def _differentiable(
    scan: Callable[..., tuple[Tensor, Tensor]],
    given: tuple[Tensor | None, ...],
    needed: tuple[bool, ...],
    into: tuple[Tensor, Tensor],
) -> tuple[Tensor | None, ...]:
    """Return the gradients with a graph, for second derivatives."""
    given = tuple(None if x is None else x.view_as(x) for x in given)  # one may be a function of another
    wanted: list[Any] = [x for x, need in zip(given, needed, strict=True) if need]
    found = iter(torch.autograd.grad(scan(*given), wanted, into, create_graph=True, materialize_grads=True))
    return tuple(next(found) if need else None for need in needed)


# --- on a GPU ---------------------------------------------------------------------------------------------------------


def no_triton_affine_scan(device: torch.device, dtype: torch.dtype, keys: int) -> str | None:
    """Return the reason why there are no Triton kernels for these arguments, or None if there are."""
    reason = no_triton("affine scan in Triton", device)
    if reason is None and dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"the affine scan in Triton computes in float32, bfloat16 or float16, not in {dtype}"
    if reason is None and keys > 128:
        return f"the affine scan in Triton holds up to 128 keys per head, but there are {keys}"
    return reason


def run_in_triton(given: Sequences, micro_steps: int, chunk: int | None) -> tuple[Tensor, Tensor]:
    """Return the outputs (tokens, heads, values) and the final state (heads, keys, values), computed by Triton."""
    contiguous = tuple(None if x is None else x.contiguous() for x in given)
    if torch.compiler.is_compiling():
        return in_graph(contiguous, micro_steps, chunk)
    outputs, state = _Triton.apply(*contiguous, micro_steps, chunk)  # pyright: ignore[reportGeneralTypeIssues]
    return outputs, state


class _Triton(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        *given, ctx.micro_steps, ctx.chunk = arguments
        kernels, _ = _kernels()
        sequences = kernels.Sequences(*given[:-1])
        ctx.plan = kernels.plan(sequences, ctx.micro_steps, ctx.chunk)
        outputs, state, trace = kernels.forward(sequences, given[-1], ctx.plan)
        ctx.save_for_backward(*given, *trace)
        return outputs, state

    @staticmethod
    def backward(ctx: Any, *into: Any) -> Any:
        given = ctx.saved_tensors[:7]
        if torch.is_grad_enabled():

            def scan(*given: Any) -> tuple[Tensor, Tensor]:
                return run_in_chunks(Sequences(*given), ctx.micro_steps, ctx.chunk)

            return *_differentiable(scan, given, ctx.needs_input_grad[:7], into), None, None

        def pull(*into: Tensor) -> tuple[Tensor | None, ...]:
            forward, backward = _kernels()
            trace = forward.Trace(*ctx.saved_tensors[7:])
            contiguous = (x.contiguous() for x in into)
            return backward.backward(forward.Sequences(*given[:-1]), trace, *contiguous, ctx.plan)

        return *loop_over_batch(pull, *into), None, None


def _kernels() -> tuple[ModuleType, ModuleType]:
    """Import the kernels for CUDA, which need Triton."""
    from mnemoscope.kernels import triton_affine, triton_affine_backward

    return triton_affine, triton_affine_backward
