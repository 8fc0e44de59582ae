"""Scans with full attention on a GPU (see `full_attention`).

Forward, one program takes one sequence through all times; each of its `ROWS` accumulators sums every ROWS-th row, so that
a block of rows needs no exchange between warps. Backward, three kernels take a chunk of steps at a time: `_linearise`
computes the matrices M_t of all its steps, `_backward` takes one sequence through the steps, with the rows of the chunk
in registers, and `_spread` adds to the gradients of all earlier rows. Sums are in float32; the products of `_linearise`
are three products of tf32.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from mnemoscope.kernels.attention_scans import Weights
from mnemoscope.kernels.devices import on_device
from mnemoscope.kernels.full_attention_types import FullAttention, Trace
from mnemoscope.kernels.history import HistoryGradients, HistoryStart, OutputGradients
from mnemoscope.kernels.triton_attention_parts import (
    cell_step,
    compared,
    pull_cell,
    pull_scores,
    transposed,
    transposed_times,
    vector,
)

CHUNK = 32
"""Most steps of the backward pass between two sums over earlier rows."""
AT_ONCE = 2**26
"""Most numbers in the matrices M_t of a chunk: a large batch has shorter chunks."""
ROWS = {"_forward": 64, "_linearise": 32, "_backward": CHUNK, "_spread": 32}
WARPS = {"_forward": 16, "_linearise": 8, "_backward": 4, "_spread": 4}
"""Rows that a program reads together, and its warps: the fastest on an H200 at 128 units and batch 10."""


def forward(us: Tensor, start: HistoryStart, weights: Weights, options: FullAttention) -> Trace:
    """Run all steps; return the results for the backward pass."""
    time, batch, width = us.shape
    size, given = start.s.shape[1], start.rows.shape[1]
    lstm = options.cell == "lstm"
    outputs, queries, contexts = us.new_empty(3, time, batch, size).unbind()
    rows = us.new_empty(batch, given + time, 2 * size)
    rows[:, :given] = start.rows
    gates = us.new_empty(time, batch, width) if lstm else None
    c = us.new_empty(time, batch, size) if lstm else None
    trace = Trace(outputs, queries, contexts, us.new_empty(time, batch), rows, gates, c)
    sizes = (time, batch, given, size, options.scale, size**-0.5)
    tensors = (us, start.s, start.c, start.filled, *transposed(weights), *trace)
    _launch(_forward, (batch,), tensors, sizes, options, weights, start)
    return trace


def backward(
    grads: OutputGradients, start: HistoryStart, weights: Weights, options: FullAttention, trace: Trace
) -> HistoryGradients:
    """Run the steps in reverse, as `backward_on_cpu`."""
    into_outputs, into_h, into_c, into_rows = grads
    time, batch, size = trace.outputs.shape
    given = start.rows.shape[1]
    drive = trace.outputs.new_empty(time, batch, len(weights.recurrent))
    chunk = max(1, min(CHUNK, AT_ONCE // (batch * size * size)))
    into_queries, gs = torch.empty_like(trace.outputs), trace.outputs.new_empty(chunk, batch, size)
    matrices = trace.outputs.new_empty(chunk, batch, size, size)
    blocks = triton.cdiv(given + time, ROWS["_spread"]) + 1  # the last takes the sums of the chunks
    directions, s = trace.outputs.new_zeros(blocks, batch, size), torch.zeros_like(start.s)
    into_h = torch.zeros_like(start.s) if into_h is None else into_h
    c = torch.zeros_like(start.s) if into_c is None else into_c.clone(memory_format=torch.contiguous_format)
    rows = torch.zeros_like(trace.rows) if into_rows is None else into_rows.clone(memory_format=torch.contiguous_format)
    known = (weights.direction, trace.queries, trace.contexts, trace.norms, trace.rows)
    filled = None if start.filled is None else start.filled.contiguous()
    steps = (into_outputs, into_h, start.c, *weights[:4], trace.gates, trace.c)
    steps = tuple(None if tensor is None else tensor.contiguous() for tensor in steps)  # once for all chunks
    for end in range(time, 0, -chunk):
        begin = max(0, end - chunk)
        sizes = (begin, end, time, batch, given, size, options.scale, size**-0.5)
        _launch(_linearise, (end - begin, batch), (filled, *known, matrices), sizes, options, weights, start)
        results = (matrices, gs, drive, into_queries, rows, directions[-1], s, c)
        _launch(_backward, (batch,), (*steps, *known, *results), sizes, options, weights, start)
        if given + begin:
            programs = (triton.cdiv(given + begin, ROWS["_spread"]), batch)
            _launch(_spread, programs, (filled, *known, gs, rows, directions), sizes, options, weights, start)
    direction = None if weights.direction is None else directions.sum((0, 1))
    return HistoryGradients(drive, into_queries, direction, s, c if options.cell == "lstm" else None, rows)


def _launch(
    kernel: Any,
    programs: tuple,
    tensors: tuple,
    sizes: tuple,
    options: FullAttention,
    weights: Weights,
    start: HistoryStart,
) -> None:
    """Run the kernel; the first tensor also stands for those that are None."""
    like = next(tensor for tensor in tensors if tensor is not None)
    columns = max(16, triton.next_power_of_2(weights.key.shape[0]))
    flags = {"CELL": options.cell, "MASKED": start.filled is not None}
    with on_device(like):
        kernel[programs](
            *(like if tensor is None else tensor.contiguous() for tensor in tensors),
            *sizes,
            **{name: value for name, value in flags.items() if name in kernel.arg_names},
            ROWS=ROWS[kernel.__name__],
            COLUMNS=columns,
            ADDITIVE=weights.direction is not None,
            num_warps=WARPS[kernel.__name__] if columns > 64 else 4,
        )


@triton.jit
def _present(filled, rows, b, given, past, MASKED: tl.constexpr):
    """Return which rows hold a state before the row `past`; `filled` (batch, given) is about those of the start."""
    present = rows < past
    if MASKED:
        present = present & (tl.load(filled + b * given + rows, mask=rows < given, other=1.0) > 0)
    return present


@triton.jit(do_not_specialize=["time", "batch", "given"])
def _forward(
    us,
    s0,
    c0,
    filled,
    recurrent,
    bias,
    to_query,
    to_key,
    v,
    outputs,
    queries,
    contexts,
    norms,
    rows,
    gates,
    cs,
    time,
    batch,
    given,
    size,
    scale,
    shrink,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    CELL: tl.constexpr,
    ADDITIVE: tl.constexpr,
    MASKED: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, COLUMNS)
    block = tl.arange(0, ROWS)
    first = (block == 0)[:, None]
    rows += b * (given + time) * 2 * size
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
        query = transposed_times(to_query, s, columns, size)
        key = transposed_times(to_key, h, columns, size)
        row = rows + (given + t) * 2 * size
        tl.store(row + columns, h, mask=columns < size)
        tl.store(row + size + columns, key, mask=columns < size)
        tl.store(queries + here + columns, query, mask=columns < size)

        # the row of this step is the first of the first accumulator; a barrier precedes the reading of earlier rows
        e, _ = compared(query, tl.where(first, key[None, :], 0.0), direction, shrink, ADDITIVE)
        top = tl.sum(tl.where(block == 0, e, 0.0), 0) + tl.zeros([ROWS], tl.float32)
        total = tl.where(block == 0, 1.0, 0.0)
        summed = tl.where(first, h[None, :], 0.0)
        past = given + t
        for begin in range(0, past, ROWS):
            here_rows = begin + block
            present = _present(filled, here_rows, b, given, past, MASKED)
            inside = (here_rows < past)[:, None] & (columns < size)[None, :]
            at = rows + here_rows[:, None] * 2 * size + columns[None, :]
            values = tl.load(at, mask=inside, other=0.0)
            e, _ = compared(query, tl.load(at + size, mask=inside, other=0.0), direction, shrink, ADDITIVE)
            e = tl.where(present, e, float("-inf"))
            higher = tl.maximum(top, e)
            kept = tl.exp(top - higher)
            a = tl.exp(e - higher)
            total = total * kept + a
            summed = summed * kept[:, None] + a[:, None] * values
            top = higher
        highest = tl.max(top, 0)
        share = tl.exp(top - highest)
        whole = tl.sum(total * share, 0)
        context = tl.sum(summed * share[:, None], 0) / whole
        s = scale * (h + context)
        tl.store(norms + t * batch + b, highest + tl.log(whole))
        tl.store(contexts + here + columns, context, mask=columns < size)
        tl.store(outputs + here + columns, s, mask=columns < size)
        tl.debug_barrier()  # later steps read the row of this one, in other threads


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "given"])
def _linearise(
    filled,
    v,
    queries,
    contexts,
    norms,
    rows,
    matrices,
    begin,
    end,
    time,
    batch,
    given,
    size,
    scale,
    shrink,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ADDITIVE: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Write the transpose of M_t of step `begin + program_id(0)`."""
    b = tl.program_id(1).to(tl.int64)
    t = begin + tl.program_id(0)
    columns = tl.arange(0, COLUMNS)
    block = tl.arange(0, ROWS)
    rows += b * (given + time) * 2 * size
    here = (t * batch + b) * size
    query = vector(queries + here, columns, size)
    context = vector(contexts + here, columns, size)
    norm = tl.load(norms + t * batch + b)
    direction = query
    if ADDITIVE:
        direction = vector(v, columns, size)
    past = given + t + 1
    product = tl.zeros([COLUMNS, COLUMNS], tl.float32)
    for from_row in range(0, past, ROWS):
        here_rows = from_row + block
        present = _present(filled, here_rows, b, given, past, MASKED)
        inside = (here_rows < past)[:, None] & (columns < size)[None, :]
        at = rows + here_rows[:, None] * 2 * size + columns[None, :]
        values = tl.load(at, mask=inside, other=0.0)
        e, bent = compared(query, tl.load(at + size, mask=inside, other=0.0), direction, shrink, ADDITIVE)
        a = tl.exp(tl.where(present, e, float("-inf")) - norm)
        slope = 1 - bent * bent if ADDITIVE else bent
        centred = values - context[None, :]
        product = tl.dot(tl.trans(centred), a[:, None] * slope, product, input_precision="tf32x3")
    product = product * direction[None, :] if ADDITIVE else product * shrink
    inside = (columns < size)[:, None] & (columns < size)[None, :]
    to = matrices + (tl.program_id(0) * batch + b) * size * size
    tl.store(to + columns[:, None] * size + columns[None, :], product, mask=inside)


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "given"])
def _backward(
    into_outputs,
    into_h,
    c0,
    recurrent,
    bias,
    to_query,
    to_key,
    gates,
    cs,
    v,
    queries,
    contexts,
    norms,
    rows,
    matrices,
    gs,
    drive,
    into_queries,
    into_rows,
    directions,
    into_s,
    into_c,
    begin,
    end,
    time,
    batch,
    given,
    size,
    scale,
    shrink,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    CELL: tl.constexpr,
    ADDITIVE: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, COLUMNS)
    steps = begin + tl.arange(0, ROWS)
    inside = (steps < end)[:, None] & (columns < size)[None, :]
    of_rows = (b * (given + time) + given + steps[:, None]) * 2 * size + columns[None, :]
    values = tl.load(rows + of_rows, mask=inside, other=0.0)
    keys = tl.load(rows + of_rows + size, mask=inside, other=0.0)
    to_values = tl.load(into_rows + of_rows, mask=inside, other=0.0)
    to_keys = tl.load(into_rows + of_rows + size, mask=inside, other=0.0)
    at_end = vector(into_h + b * size, columns, size)
    ds = vector(into_s + b * size, columns, size)
    dv = vector(directions + b * size, columns, size)
    dc = ds
    own = ds
    direction = ds
    if CELL == "lstm":
        dc = vector(into_c + b * size, columns, size)
    if CELL == "modrelu":
        own = vector(bias, columns, size)
    if ADDITIVE:
        direction = vector(v, columns, size)
    for back in range(end - begin):
        t = b * 0 + end - 1 - back
        here = (t * batch + b) * size
        g = scale * (vector(into_outputs + here, columns, size) + ds)
        query = vector(queries + here, columns, size)
        context = vector(contexts + here, columns, size)
        norm = tl.load(norms + t * batch + b)
        in_chunk = ((t - begin) * batch + b) * size
        tl.store(gs + in_chunk + columns, g, mask=columns < size)
        dquery = transposed_times(matrices + in_chunk * size, g, columns, size)
        tl.store(into_queries + here + columns, dquery, mask=columns < size)

        # the rows of this chunk
        e, bent = compared(query, keys, direction, shrink, ADDITIVE)
        a = tl.exp(tl.where(steps <= t, e, float("-inf")) - norm)
        de = a * tl.sum((values - context[None, :]) * g[None, :], 1)
        to_values += a[:, None] * g[None, :]
        into_each, _, into_direction = pull_scores(de, bent, query, direction, shrink, ADDITIVE)
        to_keys += into_each
        dv += into_direction

        # the row of this step: all its uses have been counted
        at_step = (steps == t)[:, None]
        dkey = tl.sum(tl.where(at_step, to_keys, 0.0), 0)
        dh = g + tl.where(t == time - 1, at_end, 0.0) + tl.sum(tl.where(at_step, to_values, 0.0), 0)
        dh += transposed_times(to_key, dkey, columns, size)
        h = tl.sum(tl.where(at_step, values, 0.0), 0)
        before = tl.where(t > 0, here - batch * size, -1)
        ds, dc = pull_cell(
            dh, dc, h, own, recurrent, gates, cs, c0 + b * size, drive, here, before, columns, size, CELL
        )
        ds += transposed_times(to_query, dquery, columns, size)
    tl.store(into_rows + of_rows + size, to_keys, mask=inside)
    tl.store(into_s + b * size + columns, ds, mask=columns < size)
    tl.store(directions + b * size + columns, dv, mask=columns < size)
    if CELL == "lstm":
        tl.store(into_c + b * size + columns, dc, mask=columns < size)


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "given"])
def _spread(
    filled,
    v,
    queries,
    contexts,
    norms,
    rows,
    gs,
    into_rows,
    directions,
    begin,
    end,
    time,
    batch,
    given,
    size,
    scale,
    shrink,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ADDITIVE: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Add the gradients of the steps of a chunk to those of a block of earlier rows."""
    b = tl.program_id(1).to(tl.int64)
    columns = tl.arange(0, COLUMNS)
    block = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    past = given + begin
    present = _present(filled, block, b, given, past, MASKED)
    inside = (block < past)[:, None] & (columns < size)[None, :]
    of_rows = (b * (given + time) + block[:, None]) * 2 * size + columns[None, :]
    values = tl.load(rows + of_rows, mask=inside, other=0.0)
    keys = tl.load(rows + of_rows + size, mask=inside, other=0.0)
    to_values = tl.load(into_rows + of_rows, mask=inside, other=0.0)
    to_keys = tl.load(into_rows + of_rows + size, mask=inside, other=0.0)
    of_direction = directions + (tl.program_id(0) * batch + b) * size
    dv = vector(of_direction, columns, size)
    direction = dv
    if ADDITIVE:
        direction = vector(v, columns, size)
    for t in range(begin, end):
        here = (t * batch + b) * size
        query = vector(queries + here, columns, size)
        context = vector(contexts + here, columns, size)
        g = vector(gs + ((t - begin) * batch + b) * size, columns, size)
        e, bent = compared(query, keys, direction, shrink, ADDITIVE)
        a = tl.exp(tl.where(present, e, float("-inf")) - tl.load(norms + t * batch + b))
        de = a * tl.sum((values - context[None, :]) * g[None, :], 1)
        to_values += a[:, None] * g[None, :]
        into_each, _, into_direction = pull_scores(de, bent, query, direction, shrink, ADDITIVE)
        to_keys += into_each
        dv += into_direction
    tl.store(into_rows + of_rows, to_values, mask=inside)
    tl.store(into_rows + of_rows + size, to_keys, mask=inside)
    tl.store(of_direction + columns, dv, mask=columns < size)
