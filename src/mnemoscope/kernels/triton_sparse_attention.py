"""Scans with sparse attention on a GPU (see `sparse_attention`): one program takes one sequence through all times.

A step writes the scores of all stored rows to memory, and then finds the largest `top_k + 1` in turn. A barrier precedes
every read of what the program has written. Sums are in float32.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from mnemoscope.kernels.attention_scans import Weights
from mnemoscope.kernels.devices import on_device
from mnemoscope.kernels.history import HistoryGradients, HistoryStart, OutputGradients
from mnemoscope.kernels.sparse_attention_types import EPSILON, SparseAttention, Trace
from mnemoscope.kernels.triton_attention_parts import (
    cell_step,
    compared,
    pull_cell,
    pull_scores,
    transposed,
    transposed_times,
    vector,
)

ROWS, WARPS = 32, 4
"""Rows that a program reads together, and its warps: the fastest on an H200 at 128 units and batch 10."""


def forward(us: Tensor, start: HistoryStart, weights: Weights, options: SparseAttention) -> Trace:
    """Run all steps; return the results for the backward pass."""
    time, batch, width = us.shape
    size, given = start.s.shape[1], start.rows.shape[1]
    lstm = options.cell == "lstm"
    outputs = us.new_empty(time, batch, 2 * size)
    hs, queries = us.new_empty(2, time, batch, size).unbind()
    chosen = torch.empty(time, batch, options.top_k + 1, dtype=torch.int64, device=us.device)
    attention, sums = us.new_empty(time, batch, options.top_k + 1), us.new_empty(time, batch)
    rows = us.new_empty(batch, given + options.stored(time), 2 * size)
    rows[:, :given] = start.rows
    gates = us.new_empty(time, batch, width) if lstm else None
    c = us.new_empty(time, batch, size) if lstm else None
    trace = Trace(outputs, hs, queries, chosen, attention, sums, rows, gates, c)
    scores = us.new_empty(batch, rows.shape[1])
    _launch(_forward, (us, start.s, start.c, *transposed(weights), *trace, scores), start, weights, options, trace)
    return trace


def backward(
    grads: OutputGradients, start: HistoryStart, weights: Weights, options: SparseAttention, trace: Trace
) -> HistoryGradients:
    """Run the steps in reverse, as `backward_on_cpu`."""
    into_outputs, into_h, into_c, into_rows = grads
    time, batch, _ = trace.hs.shape
    drive = trace.hs.new_empty(time, batch, len(weights.recurrent))
    queries = torch.empty_like(trace.hs)
    directions, s = torch.empty_like(start.s), torch.empty_like(start.s)
    into_h = torch.zeros_like(start.s) if into_h is None else into_h
    c = torch.zeros_like(start.s) if into_c is None else into_c.clone(memory_format=torch.contiguous_format)
    rows = torch.zeros_like(trace.rows) if into_rows is None else into_rows.clone(memory_format=torch.contiguous_format)
    results = (drive, queries, directions, s, c, rows)
    given = (into_outputs, into_h, start.c, *weights, *trace[1:])
    _launch(_backward, (*given, *results), start, weights, options, trace)
    direction = None if weights.direction is None else directions.sum(0)
    return HistoryGradients(drive, queries, direction, s, c if options.cell == "lstm" else None, rows)


def _launch(
    kernel: Any, tensors: tuple, start: HistoryStart, weights: Weights, options: SparseAttention, trace: Trace
) -> None:
    """Run the kernel once for each sequence; the first tensor also stands for those that are None."""
    time, batch, size = trace.hs.shape
    columns = max(16, triton.next_power_of_2(size))
    constants = {"ROWS": ROWS, "PLACES": max(16, triton.next_power_of_2(trace.rows.shape[1])), "EPSILON": EPSILON}
    with on_device(trace.hs):
        kernel[(batch,)](
            *(tensors[0] if tensor is None else tensor.contiguous() for tensor in tensors),
            time,
            batch,
            start.rows.shape[1],
            trace.rows.shape[1],
            options.phase,
            size,
            options.scale,
            size**-0.5,
            **{name: value for name, value in constants.items() if name in kernel.arg_names},
            EVERY=options.every,
            TRUNCATE=options.truncate or 0,
            TOP_K=options.top_k,
            CHOSEN=max(2, triton.next_power_of_2(options.top_k + 1)),
            COLUMNS=columns,
            CELL=options.cell,
            ADDITIVE=weights.direction is not None,
            num_warps=WARPS,
        )


@triton.jit
def _stored_before(t, given, phase, EVERY: tl.constexpr):
    """Return the number of rows that step t attends to."""
    return given + (phase + t) // EVERY - phase // EVERY


@triton.jit(do_not_specialize=["time", "batch", "given", "slots", "phase"])
def _forward(
    us,
    s0,
    c0,
    recurrent,
    bias,
    to_query,
    to_key,
    v,
    outputs,
    hs,
    queries,
    chosen,
    attention,
    sums,
    rows,
    gates,
    cs,
    scores,
    time,
    batch,
    given,
    slots,
    phase,
    size,
    scale,
    shrink,
    ROWS: tl.constexpr,
    PLACES: tl.constexpr,
    EPSILON: tl.constexpr,
    EVERY: tl.constexpr,
    TRUNCATE: tl.constexpr,
    TOP_K: tl.constexpr,
    CHOSEN: tl.constexpr,
    COLUMNS: tl.constexpr,
    CELL: tl.constexpr,
    ADDITIVE: tl.constexpr,
):
    LOWEST: tl.constexpr = -1e30
    b = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, COLUMNS)
    block = tl.arange(0, ROWS)
    places = tl.arange(0, PLACES)
    ranks = tl.arange(0, CHOSEN)
    rows += b * slots * 2 * size
    scores += b * slots
    s = vector(s0 + b * size, columns, size)
    c = s
    own = s
    direction = s
    if CELL == "lstm":
        c = vector(c0 + b * size, columns, size)
    if CELL == "modrelu":
        own = vector(bias, columns, size)
    if ADDITIVE:
        direction = vector(v, columns, size)
    for step in range(time):
        t = b * 0 + step  # 64 bits, as b: offsets in memory may exceed 32 bits
        here = (t * batch + b) * size
        h, c = cell_step(us, recurrent, s, c, own, gates, cs, here, columns, size, CELL)
        query = transposed_times(to_query, h, columns, size)
        tl.store(hs + here + columns, h, mask=columns < size)
        tl.store(queries + here + columns, query, mask=columns < size)

        n = _stored_before(step, given, phase, EVERY)
        for begin in range(0, n, ROWS):
            inside = (begin + block < n)[:, None] & (columns < size)[None, :]
            at = rows + (begin + block)[:, None] * 2 * size + size + columns[None, :]
            e, _ = compared(query, tl.load(at, mask=inside, other=0.0), direction, shrink, ADDITIVE)
            tl.store(scores + begin + block, e, mask=begin + block < n)
        tl.debug_barrier()
        e = tl.load(scores + places, mask=places < n, other=LOWEST)
        best = tl.zeros([CHOSEN], tl.float32) + LOWEST
        picked = tl.zeros([CHOSEN], tl.int32) - 1
        for rank in tl.static_range(TOP_K + 1):
            largest, at_place = tl.max(e, 0, return_indices=True)
            best = tl.where(ranks == rank, largest, best)
            picked = tl.where((ranks == rank) & (rank < n), at_place, picked)
            e = tl.where(places == at_place, LOWEST, e)
        taken = (ranks <= TOP_K) & (ranks < n)
        a = tl.where(taken, tl.exp(best - tl.max(best, 0)), 0.0)
        summed = tl.sum(a, 0)
        a = a / tl.where(summed > 0, summed, 1.0)
        summed = summed * 0
        if n > TOP_K:
            above = tl.where(taken, best - tl.sum(tl.where(ranks == TOP_K, best, 0.0), 0), 0.0)
            summed = tl.sum(above, 0) + EPSILON
            a = above / summed
        inside = (picked >= 0)[:, None] & (columns < size)[None, :]
        values = tl.load(rows + picked[:, None] * 2 * size + columns[None, :], mask=inside, other=0.0)
        context = tl.sum(a[:, None] * values, 0)
        s = scale * (h + context)
        of_ranks = (t * batch + b) * (TOP_K + 1) + ranks
        tl.store(chosen + of_ranks, picked.to(tl.int64), mask=ranks <= TOP_K)
        tl.store(attention + of_ranks, a, mask=ranks <= TOP_K)
        tl.store(sums + t * batch + b, summed)
        tl.store(outputs + 2 * here + columns, s, mask=columns < size)
        tl.store(outputs + 2 * here + size + columns, context, mask=columns < size)
        if (phase + step + 1) % EVERY == 0:
            key = transposed_times(to_key, s, columns, size)
            tl.store(rows + n * 2 * size + columns, s, mask=columns < size)
            tl.store(rows + n * 2 * size + size + columns, key, mask=columns < size)
        tl.debug_barrier()


@triton.jit(do_not_specialize=["time", "batch", "given", "slots", "phase"])
def _backward(
    into_outputs,
    into_h,
    c0,
    recurrent,
    bias,
    to_query,
    to_key,
    v,
    hs,
    queries,
    chosen,
    attention,
    sums,
    rows,
    gates,
    cs,
    drive,
    into_queries,
    directions,
    into_s,
    into_c,
    into_rows,
    time,
    batch,
    given,
    slots,
    phase,
    size,
    scale,
    shrink,
    EVERY: tl.constexpr,
    TRUNCATE: tl.constexpr,
    TOP_K: tl.constexpr,
    CHOSEN: tl.constexpr,
    COLUMNS: tl.constexpr,
    CELL: tl.constexpr,
    ADDITIVE: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, COLUMNS)
    ranks = tl.arange(0, CHOSEN)
    rows += b * slots * 2 * size
    into_rows += b * slots * 2 * size
    at_end = vector(into_h + b * size, columns, size)
    ds = tl.zeros([COLUMNS], tl.float32)
    dc = ds
    dv = ds
    own = ds
    direction = ds
    if CELL == "lstm":
        dc = vector(into_c + b * size, columns, size)
    if CELL == "modrelu":
        own = vector(bias, columns, size)
    if ADDITIVE:
        direction = vector(v, columns, size)
    for back in range(time):
        step = time - 1 - back
        t = b * 0 + step
        here = (t * batch + b) * size
        n = _stored_before(step, given, phase, EVERY)
        ds += vector(into_outputs + 2 * here, columns, size)
        if (phase + step + 1) % EVERY == 0:  # the row of this step: all its uses have been counted
            stored = into_rows + n * 2 * size
            ds += vector(stored, columns, size)
            ds += transposed_times(to_key, vector(stored + size, columns, size), columns, size)
        g = scale * ds
        into_context = g + vector(into_outputs + 2 * here + size, columns, size)
        query = vector(queries + here, columns, size)
        of_ranks = (t * batch + b) * (TOP_K + 1) + ranks
        picked = tl.load(chosen + of_ranks, mask=ranks <= TOP_K, other=-1)
        a = tl.load(attention + of_ranks, mask=ranks <= TOP_K, other=0.0)
        inside = (picked >= 0)[:, None] & (columns < size)[None, :]
        of_rows = picked[:, None] * 2 * size + columns[None, :]
        values = tl.load(rows + of_rows, mask=inside, other=0.0)
        keys = tl.load(rows + of_rows + size, mask=inside, other=0.0)

        de = tl.sum(values * into_context[None, :], 1)
        de = de - tl.sum(a * de, 0)
        if n > TOP_K:  # only scores above the threshold count, and its score is subtracted from them
            de = tl.where(a > 0, de / tl.load(sums + t * batch + b), 0.0)
            de = tl.where(ranks == TOP_K, -tl.sum(de, 0), de)
        else:
            de = a * de
        _, bent = compared(query, keys, direction, shrink, ADDITIVE)
        into_each, dquery, into_direction = pull_scores(de, bent, query, direction, shrink, ADDITIVE)
        dv += into_direction
        tl.store(into_queries + here + columns, dquery, mask=columns < size)
        to_values = tl.load(into_rows + of_rows, mask=inside, other=0.0)
        to_keys = tl.load(into_rows + of_rows + size, mask=inside, other=0.0)
        tl.store(into_rows + of_rows, to_values + a[:, None] * into_context[None, :], mask=inside)
        tl.store(into_rows + of_rows + size, to_keys + into_each, mask=inside)
        tl.debug_barrier()

        dh = g + at_end + transposed_times(to_query, dquery, columns, size)
        at_end = tl.zeros([COLUMNS], tl.float32)
        h = vector(hs + here, columns, size)
        before = tl.where(t > 0, here - batch * size, -1)
        ds, dc = pull_cell(
            dh, dc, h, own, recurrent, gates, cs, c0 + b * size, drive, here, before, columns, size, CELL
        )
        if TRUNCATE > 0:
            kept = (phase + step) % TRUNCATE != 0
            ds = tl.where(kept, ds, 0.0)
            dc = tl.where(kept, dc, 0.0)
    tl.store(into_s + b * size + columns, ds, mask=columns < size)
    tl.store(directions + b * size + columns, dv, mask=columns < size)
    if CELL == "lstm":
        tl.store(into_c + b * size + columns, dc, mask=columns < size)
