"""The backward pass of affine recurrences on a GPU (see `affine_chunks` and `triton_affine`).

`_walk_back` takes the gradient of the state from chunk to chunk. `_middle` solves for U and Y, and has the gradient of
the values. `_reads` and `_writes` compute the gradient of one kind of read (queries, b) or write (keys, a), and the part
of the gradient of g that comes with it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from mnemoscope.kernels.triton_affine import Plan, Sequences, Trace
from mnemoscope.kernels.triton_affine_parts import (
    load_log_decays,
    load_rows,
    load_tile,
    pair_exponents,
    product,
    selected_sums,
    store_rows,
    store_tile,
    sums_of_columns,
    sums_over_steps,
)
from mnemoscope.kernels.triton_launch import Launch, launch_all


class Gradients(NamedTuple):
    """Gradients of the sequences and of the initial state."""

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    a: Tensor | None
    b: Tensor | None
    state: Tensor


def backward(given: Sequences, trace: Trace, into_outputs: Tensor, into_state: Tensor, how: Plan) -> Gradients:
    """Return the gradients from those of the outputs (tokens, heads, values) and of the final state."""
    q, k, v, g, _, _ = given
    a, b = (k if x is None else x for x in given[4:])
    products, inverses, readers, moved, starts = trace
    sizes, constants, blocks = how.sizes(), how.constants(), how.heads * how.chunks
    ends, into_start = torch.empty_like(starts), torch.empty_like(into_state)
    U, Y = (torch.empty(v.shape if how.erases else (0,), dtype=how.storage, device=v.device) for _ in range(2))
    into_q, into_k, into_v, into_a, into_b = (torch.empty_like(x) for x in (q, k, v, a, b))
    into_g = torch.empty(4 if how.erases else 2, *g.shape, dtype=torch.float32, device=g.device)
    middle = (k, v, g, a, b, products, inverses, starts, ends, into_outputs, U, Y, into_v, *sizes)
    launches = [
        Launch(
            _walk_back,
            how.walks(),
            (moved, readers, into_outputs, into_state, ends, into_start, *sizes),
            constants | how.narrow(),
        ),
        Launch(_middle, (blocks, triton.cdiv(how.values, how.value_tile)), middle, constants),
    ]
    kinds = [(0, q, into_outputs, into_q, k, v, into_k), (1, b, Y, into_b, a, U, into_a)]
    for kind, read, source, into_read, write, written, into_write in kinds[: 2 if how.erases else 1]:
        tokens = 1 if kind else how.micro
        launches += [
            Launch(
                _reads,
                (blocks,),
                (
                    read,
                    source,
                    k,
                    a,
                    g,
                    v,
                    U,
                    products,
                    starts,
                    ends,
                    into_read,
                    into_g[2 * kind],
                    *sizes[:3],
                    tokens,
                    kind,
                ),
                constants | how.reading(),
            ),
            Launch(
                _writes,
                (blocks,),
                (write, written, q, b, g, into_outputs, Y, ends, into_write, into_g[2 * kind + 1], *sizes),
                constants,
            ),
        ]
    launch_all(launches, q, ("backward", *how.key(given)))
    if not how.erases:
        into_a = into_b = None
    return Gradients(into_q, into_k, into_v, into_g.sum(0).to(g.dtype), into_a, into_b, into_start)


@triton.jit(do_not_specialize=["steps", "heads", "chunks", "micro"])
def _walk_back(
    moved,
    readers,
    into_outputs,
    into_state,
    ends,
    into_start,
    steps,
    heads,
    chunks,
    micro,
    C: tl.constexpr,
    KEYS: tl.constexpr,
    VALUES: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    ERASES: tl.constexpr,
    PRECISION: tl.constexpr,
    STATES: tl.constexpr,
):
    head = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * E
    dS = load_tile(into_state, head * KEYS, first, VALUES, D, E, KEYS)
    for number in range(chunks):
        chunk = chunks - 1 - number
        block = head * chunks + chunk
        store_tile(ends, dS, block * KEYS, first, VALUES, D, E, KEYS)
        dO = load_rows(into_outputs, chunk * C, head, steps, heads, micro, first, VALUES, C, E)
        reading = product(tl.trans(load_tile(readers, block * C, 0, KEYS, C, D, C)), dO, PRECISION)
        if ERASES:
            dS = (
                product(tl.trans(load_tile(moved, block * KEYS, 0, KEYS, D, D, KEYS)), dS, STATES).to(tl.float32)
                + reading
            )
        else:
            row = tl.arange(0, D)
            dS = tl.load(moved + block * KEYS + row, mask=row < KEYS, other=0.0)[:, None] * dS + reading
    store_tile(into_start, dS, head * KEYS, first, VALUES, D, E, KEYS)


@triton.jit(do_not_specialize=["steps", "heads", "chunks", "micro"])
def _middle(
    k,
    v,
    g,
    a,
    b,
    products,
    inverses,
    starts,
    ends,
    into_outputs,
    U,
    Y,
    into_v,
    steps,
    heads,
    chunks,
    micro,
    C: tl.constexpr,
    KEYS: tl.constexpr,
    VALUES: tl.constexpr,
    RATES: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    ERASES: tl.constexpr,
    KINDS: tl.constexpr,
    PRECISION: tl.constexpr,
    STATES: tl.constexpr,
):
    block = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * E
    head = block // chunks
    start = (block % chunks) * C
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    dO = load_rows(into_outputs, start, head, steps, heads, micro, first, VALUES, C, E)
    V = load_rows(v, start, head, steps, heads, 1, first, VALUES, C, E)
    g_ = load_log_decays(g, start, head, steps, heads, RATES, C, D)
    to_end = tl.exp(sums_over_steps(j > i, g_, RATES, PRECISION))
    dS = load_tile(ends, block * KEYS, first, VALUES, D, E, KEYS)
    K_out = load_rows(k, start, head, steps, heads, 1, 0, KEYS, C, D) * to_end
    dV = product(K_out, dS, PRECISION)
    QK = load_tile(products, KINDS * block * C, 0, C, C, C, C)
    dV += product(tl.trans(QK), dO, PRECISION)
    if ERASES:
        QA = load_tile(products, (KINDS * block + 1) * C, 0, C, C, C, C)
        BK = load_tile(products, (KINDS * block + 2) * C, 0, C, C, C, C)
        inverse = load_tile(inverses, block * C, 0, C, C, C, C)
        S = load_tile(starts, block * KEYS, first, VALUES, D, E, KEYS)
        b_in = load_rows(b, start, head, steps, heads, 1, 0, KEYS, C, D)
        b_in *= tl.exp(sums_over_steps(j < i, g_, RATES, PRECISION))
        reads = product(b_in, S, PRECISION) + product(BK, V, PRECISION)
        store_rows(U, product(inverse, reads, STATES), start, head, steps, heads, 1, first, VALUES, C, E)
        A_out = load_rows(a, start, head, steps, heads, 1, 0, KEYS, C, D) * to_end
        into_erased = product(A_out, dS, PRECISION) + product(tl.trans(QA), dO, PRECISION)
        Y_ = product(tl.trans(inverse), into_erased, STATES)
        store_rows(Y, Y_, start, head, steps, heads, 1, first, VALUES, C, E)
        dV += product(tl.trans(BK), Y_, PRECISION)
    store_rows(into_v, dV, start, head, steps, heads, 1, first, VALUES, C, E)


@triton.jit(do_not_specialize=["steps", "heads", "chunks", "micro", "before"])
def _reads(
    mine,
    source,
    k,
    a,
    g,
    v,
    U,
    products,
    starts,
    ends,
    into_mine,
    into_g,
    steps,
    heads,
    chunks,
    micro,
    before,
    C: tl.constexpr,
    KEYS: tl.constexpr,
    VALUES: tl.constexpr,
    RATES: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    ERASES: tl.constexpr,
    KINDS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Fill the gradient of `mine`: the queries (`before` = 0), or b, which reads before the step (`before` = 1).

    `source` is the gradient of what is read, dO or Y.
    """
    block = tl.program_id(0).to(tl.int64)
    head = block // chunks
    start = (block % chunks) * C
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    into_QK = tl.zeros([C, C], tl.float32)  # or BK
    into_QA = tl.zeros([C, C], tl.float32)  # or BA
    into_in = tl.zeros([C, D], tl.float32)
    overlap = tl.zeros([D], tl.float32)
    for first in range(0, VALUES, E):
        source_ = load_rows(source, start, head, steps, heads, micro, first, VALUES, C, E)
        S = load_tile(starts, block * KEYS, first, VALUES, D, E, KEYS)
        dS = load_tile(ends, block * KEYS, first, VALUES, D, E, KEYS)
        overlap += tl.sum(S * dS, 1)
        into_in += product(source_, tl.trans(S), PRECISION)
        V = load_rows(v, start, head, steps, heads, 1, first, VALUES, C, E)
        into_QK += product(source_, tl.trans(V), PRECISION)
        if ERASES:
            U_ = load_rows(U, start, head, steps, heads, 1, first, VALUES, C, E)
            into_QA += product(source_, tl.trans(U_), PRECISION)
    x = load_rows(mine, start, head, steps, heads, micro, 0, KEYS, C, D)
    k_ = load_rows(k, start, head, steps, heads, 1, 0, KEYS, C, D)
    g_ = load_log_decays(g, start, head, steps, heads, RATES, C, D)
    a_ = k_
    if ERASES:
        a_ = load_rows(a, start, head, steps, heads, 1, 0, KEYS, C, D)
    into_x = into_in * tl.exp(sums_over_steps(j <= i - before, g_, RATES, PRECISION))
    total = overlap * tl.exp(tl.sum(g_, 0)) * (1 - before)  # counted once
    if RATES == 1:
        border = tl.sum(into_x * x, 1)[:, None]
        pairs = into_QK * load_tile(products, (KINDS * block + 2 * before) * C, 0, C, C, C, C)
        if ERASES:
            pairs += into_QA * load_tile(products, (KINDS * block + 2 * before + 1) * C, 0, C, C, C, C)
        into_x, into = _through_pairs(into_x, border, pairs, into_QK, into_QA, k_, a_, g_, before, C, ERASES, PRECISION)
        into += tl.sum(total)
        rows = start + tl.arange(0, C)
        tl.store(into_g + rows * heads + head, into, mask=rows < steps)
    else:
        spread = selected_sums(i <= j - before, into_x * x, PRECISION) + total[None, :]
        into_x, spread = _through_levels(into_x, spread, x, into_QK, into_QA, k_, a_, g_, before, C, ERASES, PRECISION)
        store_rows(into_g, spread, start, head, steps, heads, 1, 0, RATES, C, D)
    store_rows(into_mine, into_x, start, head, steps, heads, micro, 0, KEYS, C, D)


@triton.jit
def _through_pairs(
    into_x,
    border,
    pairs,
    into_QK,
    into_QA,
    k_,
    a_,
    g_,
    before,
    C: tl.constexpr,
    ERASES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Return the gradient of the reads and that of g, one per step, with their pairs with the writes of the chunk.

    `border` is the part of the gradient of g from the state before the chunk, and `pairs` those from each pair.
    """
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    # at (i, t): the pairs with a write before t, and the border
    spans = sums_of_columns(pairs, i < j, PRECISION) + border
    factor = tl.where(j <= i - before, tl.exp(pair_exponents(g_, i, j, before, C, PRECISION)), 0.0)
    into_x += product(into_QK * factor, k_, PRECISION)
    if ERASES:
        into_x += product(into_QA * factor, a_, PRECISION)
    return into_x, tl.sum(tl.where(j <= i - before, spans, 0.0), 0)


@triton.jit
def _through_levels(
    into_x,
    spread,
    x,
    into_QK,
    into_QA,
    k_,
    a_,
    g_,
    before,
    C: tl.constexpr,
    ERASES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Return the gradients of the reads x and of g, one per step and key, with the pairs in blocks of doubling size."""
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    own = tl.where((i == j) & (before == 0), into_QK, 0.0)
    into_x += tl.sum(own, 1)[:, None] * k_
    if ERASES:
        own = tl.where((i == j) & (before == 0), into_QA, 0.0)
        into_x += tl.sum(own, 1)[:, None] * a_
    size = 1
    while size < C:
        right = (i // size) % 2 == 1
        together = i // size == j // size
        until = tl.where(right, j <= i - before, j > i) & together
        decay = tl.exp(selected_sums(until, g_, PRECISION))
        across = (i // (2 * size) == j // (2 * size)) & right & ((j // size) % 2 == 0)
        found = product(tl.where(across, into_QK, 0.0), tl.where(right, 0.0, k_ * decay), PRECISION)
        if ERASES:
            found += product(tl.where(across, into_QA, 0.0), tl.where(right, 0.0, a_ * decay), PRECISION)
        found = tl.where(right, found * decay, 0.0)
        into_x += found
        spread += selected_sums((i <= j - before) & together, found * x, PRECISION)
        size *= 2
    return into_x, spread


@triton.jit(do_not_specialize=["steps", "heads", "chunks", "micro"])
def _writes(
    mine,
    written,
    q,
    b,
    g,
    into_outputs,
    Y,
    ends,
    into_mine,
    into_g,
    steps,
    heads,
    chunks,
    micro,
    C: tl.constexpr,
    KEYS: tl.constexpr,
    VALUES: tl.constexpr,
    RATES: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    ERASES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Fill the gradient of `mine`, the keys or a, along which V or U is `written`. Rows are writes, columns are reads."""
    block = tl.program_id(0).to(tl.int64)
    head = block // chunks
    start = (block % chunks) * C
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    into_QK = tl.zeros([C, C], tl.float32)  # or QA
    into_BK = tl.zeros([C, C], tl.float32)  # or BA
    into_out = tl.zeros([C, D], tl.float32)
    for first in range(0, VALUES, E):
        written_ = load_rows(written, start, head, steps, heads, 1, first, VALUES, C, E)
        dS = load_tile(ends, block * KEYS, first, VALUES, D, E, KEYS)
        into_out += product(written_, tl.trans(dS), PRECISION)
        dO = load_rows(into_outputs, start, head, steps, heads, micro, first, VALUES, C, E)
        into_QK += product(written_, tl.trans(dO), PRECISION)
        if ERASES:
            Y_ = load_rows(Y, start, head, steps, heads, 1, first, VALUES, C, E)
            into_BK += product(written_, tl.trans(Y_), PRECISION)
    x = load_rows(mine, start, head, steps, heads, 1, 0, KEYS, C, D)
    q_ = load_rows(q, start, head, steps, heads, micro, 0, KEYS, C, D)
    g_ = load_log_decays(g, start, head, steps, heads, RATES, C, D)
    b_ = q_
    if ERASES:
        b_ = load_rows(b, start, head, steps, heads, 1, 0, KEYS, C, D)
    into_x = into_out * tl.exp(sums_over_steps(j > i, g_, RATES, PRECISION))
    if RATES == 1:
        border = tl.sum(into_x * x, 1)[:, None]
        factor = tl.where(j <= i, tl.exp(pair_exponents(g_, i, j, 0, C, PRECISION)), 0.0)
        into_x += product(into_QK * tl.trans(factor), q_, PRECISION)
        if ERASES:
            factor = tl.where(j < i, tl.exp(pair_exponents(g_, i, j, 1, C, PRECISION)), 0.0)
            into_x += product(into_BK * tl.trans(factor), b_, PRECISION)
        into = tl.sum(tl.where(i < j, border, 0.0), 0)
        rows = start + tl.arange(0, C)
        tl.store(into_g + rows * heads + head, into, mask=rows < steps)
    else:
        spread = selected_sums(i > j, into_x * x, PRECISION)
        into_x += tl.sum(tl.where(i == j, into_QK, 0.0), 1)[:, None] * q_
        size = 1
        while size < C:
            right = (i // size) % 2 == 1
            together = i // size == j // size
            until = tl.where(right, j <= i, j > i) & together
            decay = tl.exp(selected_sums(until, g_, PRECISION))
            across = (i // (2 * size) == j // (2 * size)) & ((i // size) % 2 == 0) & ((j // size) % 2 == 1)
            found = product(tl.where(across, into_QK, 0.0), tl.where(right, q_ * decay, 0.0), PRECISION)
            if ERASES:
                earlier = tl.exp(selected_sums(together & (j < i), g_, PRECISION))
                found += product(tl.where(across, into_BK, 0.0), tl.where(right, b_ * earlier, 0.0), PRECISION)
            found = tl.where(right, 0.0, found * decay)
            into_x += found
            spread += selected_sums((i > j) & together, found * x, PRECISION)
            size *= 2
        store_rows(into_g, spread, start, head, steps, heads, 1, 0, RATES, C, D)
    store_rows(into_mine, into_x, start, head, steps, heads, 1, 0, KEYS, C, D)
