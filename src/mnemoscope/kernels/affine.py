"""Recurrences that are affine in a matrix state: linear attention, state-space models and delta rules.

Per head, the state S has keys x values numbers. A token consists of one or several micro-steps

    S_i = diag(exp(g_i)) S_{i-1} + a_i (b_i^T S_{i-1}) + k_i v_i^T,      g_i <= 0,

and its output is `o = q^T S` after its last micro-step. Nothing on the right depends on S but S, so a whole sequence
can be computed in chunks (`affine_chunks`; on a GPU `triton_affine`).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.kernels.affine_gradients import (
    Sequences,
    no_triton_affine_scan,
    run_in_chunks,
    run_in_triton,
    transformed,
)

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
    backend: Literal["auto", "loop", "chunks", "triton"] = "auto",
) -> tuple[Float[Tensor, "tokens batch heads values"], Float[Tensor, "batch heads keys values"]]:
    """Return the outputs of all tokens and the final state.

    bfloat16 and float16 are computed in float32, which is then also the dtype of the state; log decays may be float32.

    Args:
        queries: one per token.
        keys: `micro_steps` per token, in order, as in all other sequences.
        values: what is written along the keys.
        log_decays: g, at most 0, one per key or one for all keys; `-inf` forgets.
        erase: a and b; None if the recurrence has no such term.
        state: the state before the first token; zeros if None.
        micro_steps: micro-steps per token.
        resets: where True, the state is set to zero before the token, as at the start of a packed sequence.
        chunk: micro-steps that are computed together; Triton takes 16, 32 or 64.
        backend: "triton" for the kernels of a GPU, "chunks" for operations of torch on any device, "loop" for the
            literal recurrence, or "auto" for the fastest that applies.

    >>> ones = torch.ones(3, 1, 1, 1)
    >>> outputs, state = affine_scan(ones, ones, ones, -0.6931472 * ones)
    >>> outputs.flatten().tolist()
    [1.0, 1.5, 1.75]

    """
    _check(queries, keys, values, log_decays, erase, micro_steps, chunk, backend)
    _check_sizes(queries, keys, values, log_decays, erase, state, resets)
    batch, heads = keys.shape[1:3]
    dtype = torch.float64 if queries.dtype == torch.float64 else torch.float32
    state = keys.new_zeros(*keys.shape[1:], values.shape[-1], dtype=dtype) if state is None else state.to(dtype)
    if backend == "loop" or (backend == "auto" and (len(queries) == 1 or batch == 0)):
        with torch.autocast(queries.device.type, enabled=False):
            return _loop(queries, keys, values, log_decays, erase, state, micro_steps, resets)
    a, b = erase or (None, None)
    if resets is not None:
        first = pad(resets.unsqueeze(1), (0, 0, 0, micro_steps - 1)).flatten(0, 1)[..., None, None]
        log_decays = torch.where(first, -torch.inf, log_decays)
        b = None if b is None else torch.where(first, 0, b)
    flat = (None if x is None else x.flatten(1, 2) for x in (queries, keys, values, log_decays, a, b))
    given = Sequences._make((*flat, state.flatten(0, 1)))
    reason = no_triton_affine_scan(queries.device, queries.dtype, keys.shape[-1])
    if reason is None and transformed(given):
        reason = "the affine scan in Triton has no rule for transforms of torch.func and forward mode"
    if backend == "triton" and reason is not None:
        raise ValueError(f'{reason[0].upper()}{reason[1:]}; pass backend="auto".')
    run = run_in_chunks if backend == "chunks" or reason is not None else run_in_triton
    with torch.autocast(queries.device.type, enabled=False):
        outputs, state = run(given, micro_steps, chunk)
    return outputs.unflatten(1, (batch, heads)), state.unflatten(0, (batch, heads))


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
        decayed = log_decays[i].to(state.dtype).exp().unsqueeze(-1) * state
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
    if backend not in ("auto", "loop", "chunks", "triton"):
        raise ValueError(f'Unknown backend {backend!r}; choose "auto", "loop", "chunks" or "triton".')
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
    dtypes = {x.dtype for x in (queries, keys, values, *(erase or ()))}
    if len(dtypes) > 1 or log_decays.dtype not in (queries.dtype, torch.float32):
        raise ValueError(
            "queries, keys, values and erase must have one dtype, log_decays the same or float32; convert them first."
        )


def _check_sizes(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    log_decays: Tensor,
    erase: tuple[Tensor, Tensor] | None,
    state: Tensor | None,
    resets: Tensor | None,
) -> None:
    a, b = erase or (None, None)
    sizes = {
        "queries": (queries, (len(queries), *keys.shape[1:])),
        "values": (values, (*keys.shape[:-1], values.shape[-1])),
        "log_decays": (log_decays, (*keys.shape[:-1], log_decays.shape[-1])),
        "a of erase": (a, tuple(keys.shape)),
        "b of erase": (b, tuple(keys.shape)),
        "state": (state, (*keys.shape[1:], values.shape[-1])),
        "resets": (resets, (len(queries), keys.shape[1])),
    }
    for name, (given, size) in sizes.items():
        if given is not None and given.shape != size:
            raise ValueError(
                f"With keys of size {tuple(keys.shape)}, {name} must be {size}, but is {tuple(given.shape)}."
            )


def _loop(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    log_decays: Tensor,
    erase: tuple[Tensor, Tensor] | None,
    state: Tensor,
    micro_steps: int,
    resets: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Run the literal recurrence."""
    outputs = []
    for t in range(len(queries)):
        if resets is not None:
            state = torch.where(resets[t, :, None, None, None], 0, state)
        now = slice(t * micro_steps, (t + 1) * micro_steps)
        pair = None if erase is None else (erase[0][now], erase[1][now])
        output, state = affine_step(state, queries[t], keys[now], values[now], log_decays[now], pair)
        outputs.append(output)
    return torch.stack(outputs), state
