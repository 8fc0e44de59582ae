"""Recurrences that are affine in a matrix state: linear attention, state-space models and delta rules.

Per head, the state S has keys x values numbers. A token consists of one or several micro-steps

    S_i = diag(exp(g_i)) S_{i-1} + a_i (b_i^T S_{i-1}) + k_i v_i^T,      g_i <= 0,

and its output is `o = q^T S` after its last micro-step. Nothing on the right depends on S but S, so a whole sequence
can be computed in chunks (`affine_chunks`).
"""

from __future__ import annotations

from math import ceil
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import pad

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.kernels.affine_chunks import Chunks, Trace, chunked, chunked_backward
from mnemoscope.kernels.batched_gradients import loop_over_batch

CHUNK = 64
"""Steps of a chunk, unless it is chosen or the sequence is shorter."""

Sequence = Float[Tensor, "steps batch heads keys"]


def affine_scan(
    queries: Float[Tensor, "tokens batch heads keys"],
    keys: Float[Tensor, "steps batch heads keys"],
    values: Float[Tensor, "steps batch heads values"],
    log_decays: Float[Tensor, "steps batch heads rates"],
    erase: tuple[Sequence, Sequence] | None = None,
    *,
    state: Float[Tensor, "batch heads keys values"] | None = None,
    micro_steps: int = 1,
    resets: Bool[Tensor, "tokens batch"] | None = None,
    chunk: int | None = None,
    backend: Literal["auto", "loop", "chunks"] = "auto",
) -> tuple[Float[Tensor, "tokens batch heads values"], Float[Tensor, "batch heads keys values"]]:
    """Return the outputs of all tokens and the final state.

    bfloat16 and float16 are computed in float32, which is then also the dtype of the state.

    Args:
        queries: one per token.
        keys: `micro_steps` per token, in order, as in all other sequences.
        values: what is written along the keys.
        log_decays: g, at most 0, one per key or one for all keys; `-inf` forgets.
        erase: a and b; None if the recurrence has no such term.
        state: the state before the first token; zeros if None.
        micro_steps: micro-steps per token.
        resets: where True, the state is set to zero before the token, as at the start of a packed sequence.
        chunk: micro-steps that are computed together.
        backend: "chunks", "loop" for the literal recurrence, or "auto" for the faster one.

    >>> ones = torch.ones(3, 1, 1, 1)
    >>> outputs, state = affine_scan(ones, ones, ones, -0.6931472 * ones)
    >>> outputs.flatten().tolist()
    [1.0, 1.5, 1.75]

    """
    _check(queries, keys, values, log_decays, erase, micro_steps, chunk, backend)
    dtype = queries.dtype if queries.dtype in (torch.float32, torch.float64) else torch.float32
    q, k, v, g = (x.to(dtype) for x in (queries, keys, values, log_decays))
    a, b = (None, None) if erase is None else (x.to(dtype) for x in erase)
    state = q.new_zeros(*keys.shape[1:], values.shape[-1]) if state is None else state.to(dtype)
    with torch.autocast(queries.device.type, enabled=False):
        if backend == "loop" or len(queries) == 1:
            outputs, state = _loop(q, k, v, g, a, b, state, micro_steps, resets)
        else:
            outputs, state = _chunks(q, k, v, g, a, b, state, micro_steps, resets, chunk)
    return outputs.to(queries.dtype), state


def affine_step(
    state: Float[Tensor, "batch heads keys values"],
    queries: Float[Tensor, "batch heads keys"],
    keys: Float[Tensor, "steps batch heads keys"],
    values: Float[Tensor, "steps batch heads values"],
    log_decays: Float[Tensor, "steps batch heads rates"],
    erase: tuple[Sequence, Sequence] | None = None,
) -> tuple[Float[Tensor, "batch heads values"], Float[Tensor, "batch heads keys values"]]:
    """Return the output of one token, and the state after its micro-steps.

    >>> one = torch.ones(1, 1, 1)
    >>> output, state = affine_step(torch.ones(1, 1, 1, 1), one, one[None], one[None], torch.zeros(1, 1, 1, 1))
    >>> output.item()
    2.0
    """
    for i in range(len(keys)):
        decayed = log_decays[i].exp().unsqueeze(-1).to(state.dtype) * state
        if erase is not None:
            a, b = (x[i].to(state.dtype) for x in erase)
            decayed = decayed + a.unsqueeze(-1) * (b.unsqueeze(-2) @ state)
        state = decayed + keys[i].to(state.dtype).unsqueeze(-1) * values[i].to(state.dtype).unsqueeze(-2)
    output = queries.to(state.dtype).unsqueeze(-2) @ state
    return output.squeeze(-2).to(queries.dtype), state


def _check(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    log_decays: Tensor,
    erase: tuple[Tensor, Tensor] | None,
    micro_steps: int,
    chunk: int | None,
    backend: str,
) -> None:
    if backend not in ("auto", "loop", "chunks"):
        raise ValueError(f'Unknown backend {backend!r}; choose "auto", "loop" or "chunks".')
    if len(queries) * micro_steps != len(keys) or not len(queries):
        raise ValueError(
            f"{len(queries)} tokens of {micro_steps} micro-steps need {len(queries) * micro_steps} > 0 keys,"
            f" but there are {len(keys)}; give the keys of all micro-steps in order."
        )
    if log_decays.shape[-1] not in (1, keys.shape[-1]):
        raise ValueError(
            f"The last size of log_decays is {log_decays.shape[-1]}; give one per key ({keys.shape[-1]}) or 1."
        )
    if chunk is not None and chunk < 1:
        raise ValueError(f"A chunk has at least 1 micro-step, but chunk is {chunk}.")
    if len({x.dtype for x in (queries, keys, values, log_decays, *(erase or ()))}) > 1:
        raise ValueError("queries, keys, values, log_decays and erase must have one dtype; convert them first.")


# --- the literal recurrence -------------------------------------------------------------------------------------------


def _loop(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    a: Tensor | None,
    b: Tensor | None,
    state: Tensor,
    micro_steps: int,
    resets: Tensor | None,
) -> tuple[Tensor, Tensor]:
    outputs = []
    for t in range(len(q)):
        if resets is not None:
            state = torch.where(resets[t, :, None, None, None], 0, state)
        now = slice(t * micro_steps, (t + 1) * micro_steps)
        erase = None if a is None or b is None else (a[now], b[now])
        output, state = affine_step(state, q[t], k[now], v[now], g[now], erase)
        outputs.append(output)
    return torch.stack(outputs), state


# --- chunks -----------------------------------------------------------------------------------------------------------


def _chunks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    a: Tensor | None,
    b: Tensor | None,
    state: Tensor,
    micro_steps: int,
    resets: Tensor | None,
    chunk: int | None,
) -> tuple[Tensor, Tensor]:
    (tokens, batch, heads), steps = q.shape[:3], len(k)
    if resets is not None:  # before the first micro-step of a token
        first = resets.new_zeros(steps, batch).index_put((torch.arange(tokens) * micro_steps,), resets)[..., None, None]
        g = torch.where(first, -torch.inf, g)
        b = None if b is None else torch.where(first, 0, b)
    if micro_steps > 1:  # only the last micro-step is read
        q = pad(q.unsqueeze(1), (0, 0, 0, 0, 0, 0, micro_steps - 1, 0)).flatten(0, 1)
    size = min(CHUNK, steps) if chunk is None else chunk
    split = (None if x is None else _split(x, size) for x in (q, k, v, g, a, b))
    outputs, state = _run(Chunks._make((*split, state.flatten(0, 1))))
    outputs = outputs[:, :, :size].flatten(1, 2)[:, :steps].unflatten(0, (batch, heads)).permute(2, 0, 1, 3)
    return outputs[micro_steps - 1 :: micro_steps], state.unflatten(0, (batch, heads))


def _run(given: Chunks) -> tuple[Tensor, Tensor]:
    """Run the chunks with the backward pass written out, or with the one of torch if a transform needs it."""
    if torch._C._are_functorch_transforms_active() or any(_has_tangent(x) for x in given):
        return chunked(given)[:2]
    outputs, state = _Chunks.apply(*given)  # pyright: ignore[reportGeneralTypeIssues]
    return outputs, state


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
                return _differentiable_gradients(given, ctx.needs_input_grad, into)
            return loop_over_batch(lambda *into: chunked_backward(given, trace, *into), *into)


def _differentiable_gradients(
    given: Chunks, needed: tuple[bool, ...], into: tuple[Tensor, Tensor]
) -> tuple[Tensor | None, ...]:
    """Return the gradients with a graph, for second derivatives."""
    given = Chunks._make(None if x is None else x.view_as(x) for x in given)  # one may be a function of another
    wanted: list[Any] = [x for x, need in zip(given, needed, strict=True) if need]
    found = iter(torch.autograd.grad(chunked(given)[:2], wanted, into, create_graph=True, materialize_grads=True))
    return tuple(next(found) if need else None for need in needed)


def _split(x: Tensor, size: int) -> Tensor:
    """Return a sequence as (batch heads, chunks, steps, features); steps without effect fill up the chunks."""
    chunks, steps = ceil(len(x) / size), 1 << (size - 1).bit_length()
    x = x.permute(1, 2, 0, 3).flatten(0, 1)
    x = pad(x, (0, 0, 0, chunks * size - x.shape[1])).unflatten(1, (chunks, size))
    return pad(x, (0, 0, 0, steps - size)).contiguous()
