"""Screened scans on a GPU (see `screened`): one program takes one sequence through all times.

The rows in the slots, and in the backward pass their gradients, stay in registers: masks select the row that enters a
slot, moves or is dropped, and a program never reads what it has written. Matrices are read from the cache at every step.
Sums are in float32.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from mnemoscope.kernels.attention_scans import Weights
from mnemoscope.kernels.devices import on_device
from mnemoscope.kernels.screened_types import OutputGradients, ScanGradients, Screening, Start, Trace
from mnemoscope.kernels.triton_attention_parts import (
    cell_step,
    compared,
    pull_cell,
    pull_scores,
    transposed,
    transposed_times,
    vector,
)

WARPS = 4
"""Warps of a program: the fastest on an H200 at 128 units and batch 10."""


def forward(us: Tensor, start: Start, weights: Weights, options: Screening) -> Trace:
    """Run all steps; return the results for the backward pass."""
    time, batch, width = us.shape
    size, slots = start.s.shape[1], options.slots
    lstm = options.cell == "lstm"
    outputs, queries = us.new_empty(2, time, batch, size).unbind()
    rows = us.new_empty(slots + time, batch, 2 * size)
    rows[:slots] = start.rows.transpose(0, 1)
    attention = us.new_empty(time, slots, batch)
    moved, dropped = torch.empty(2, time, batch, dtype=torch.int64, device=us.device).unbind()
    gates = us.new_empty(time, batch, width) if lstm else None
    c = us.new_empty(time, batch, size) if lstm else None
    last, score = torch.empty_like(rows[:slots]), start.score.T.clone(memory_format=torch.contiguous_format)
    trace = Trace(outputs, queries, rows, attention, moved, dropped, gates, c, last, score)
    _launch(_forward, (us, start.s, start.c), transposed(weights), trace, options)
    return trace


def backward(grads: OutputGradients, start: Start, weights: Weights, options: Screening, trace: Trace) -> ScanGradients:
    """Run the steps in reverse, as `backward_on_cpu`."""
    into_outputs, into_h, into_c, into_rows = grads
    time, batch, _ = trace.outputs.shape
    drive = trace.outputs.new_empty(time, batch, len(weights.recurrent))
    queries, keys = torch.empty_like(trace.outputs), torch.empty_like(trace.outputs)
    directions, s = torch.empty_like(start.s), torch.empty_like(start.s)
    into_h = torch.zeros_like(start.s) if into_h is None else into_h
    c = torch.zeros_like(start.s) if into_c is None else into_c.clone(memory_format=torch.contiguous_format)
    rows = into_rows.clone(memory_format=torch.contiguous_format)
    given, results = (into_outputs, into_h, start.c), (drive, queries, keys, directions, s, c, rows)
    _launch(_backward, given, weights, (*trace[1:-1], *results), options)
    direction = None if weights.direction is None else directions.sum(0)
    return ScanGradients(drive, queries, keys, direction, s, c if options.cell == "lstm" else None, rows)


def _launch(kernel: Any, given: tuple, weights: Weights, others: tuple, options: Screening) -> None:
    """Run the kernel once for each sequence; the first tensor also stands for those that are None."""
    like, size = given[0], weights.key.shape[0]
    time, batch = like.shape[:2]
    columns = max(16, triton.next_power_of_2(size))
    with on_device(like):
        kernel[(batch,)](
            *(like if tensor is None else tensor.contiguous() for tensor in (*given, *weights, *others)),
            time,
            batch,
            size,
            options.scale,
            size**-0.5,
            NU=options.short_term,
            RHO=options.relevant,
            COLUMNS=columns,
            PLACES=max(2, triton.next_power_of_2(options.slots)),
            CELL=options.cell,
            ADDITIVE=weights.direction is not None,
            NORMALISED=options.normalised,
            num_warps=WARPS,
        )


@triton.jit(do_not_specialize=["time", "batch"])
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
    queries,
    rows,
    attention,
    moved,
    dropped,
    gates,
    cs,
    last,
    scores,
    time,
    batch,
    size,
    scale,
    shrink,
    NU: tl.constexpr,
    RHO: tl.constexpr,
    COLUMNS: tl.constexpr,
    PLACES: tl.constexpr,
    CELL: tl.constexpr,
    ADDITIVE: tl.constexpr,
    NORMALISED: tl.constexpr,
):
    SLOTS: tl.constexpr = NU + RHO
    b = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, COLUMNS)
    slots = tl.arange(0, PLACES)
    inside = (slots < SLOTS)[:, None] & (columns < size)[None, :]
    of_slots = (slots[:, None] * batch + b) * 2 * size + columns[None, :]
    values = tl.load(rows + of_slots, mask=inside, other=0.0)
    keys = tl.load(rows + of_slots + size, mask=inside, other=0.0)
    score = tl.load(scores + slots * batch + b, mask=slots < SLOTS, other=float("-inf"))
    place = slots.to(tl.int64)
    in_ring = slots < NU
    in_set = (slots >= NU) & (slots < SLOTS)
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
        row = rows + (SLOTS * batch + t * batch + b) * 2 * size
        tl.store(row + columns, h, mask=columns < size)
        tl.store(row + size + columns, key, mask=columns < size)
        tl.store(queries + here + columns, query, mask=columns < size)

        # the row that leaves the ring replaces the least relevant row, if it is more relevant
        at_ring = slots == t % NU
        leaving = tl.sum(tl.where(at_ring, score, 0.0), 0)
        least = tl.min(tl.where(in_set, score, float("inf")), 0)
        to = tl.min(tl.where(in_set & (score == least), slots, PLACES), 0)
        to = tl.where(leaving > least, to, -1)
        target = slots == to
        tl.store(moved + t * batch + b, to)
        tl.store(dropped + t * batch + b, tl.sum(tl.where(target, place, 0), 0))
        left_value = tl.sum(tl.where(at_ring[:, None], values, 0.0), 0)
        left_key = tl.sum(tl.where(at_ring[:, None], keys, 0.0), 0)
        left_place = tl.sum(tl.where(at_ring, place, 0), 0)
        values = tl.where(target[:, None], left_value[None, :], values)
        keys = tl.where(target[:, None], left_key[None, :], keys)
        place = tl.where(target, left_place, place)
        score = tl.where(target, leaving, score)
        values = tl.where(at_ring[:, None], h[None, :], values)
        keys = tl.where(at_ring[:, None], key[None, :], keys)
        place = tl.where(at_ring, SLOTS + t, place)
        score = tl.where(at_ring, 0.0, score)

        valid = score != float("-inf")
        e, _ = compared(query, keys, direction, shrink, ADDITIVE)
        e = tl.where(valid, e, float("-inf"))
        a = tl.exp(e - tl.max(e, 0))
        a = a / tl.sum(a, 0)
        tl.store(attention + (t * SLOTS + slots) * batch + b, a, mask=slots < SLOTS)
        s = scale * (h + tl.sum(a[:, None] * values, 0))
        tl.store(outputs + here + columns, s, mask=columns < size)
        if NORMALISED:
            a = a * tl.sum(valid.to(tl.float32), 0)
        score = tl.where(in_ring & valid, score + a, score)
    tl.store(last + of_slots, values, mask=inside)
    tl.store(last + of_slots + size, keys, mask=inside)
    tl.store(scores + slots * batch + b, score, mask=slots < SLOTS)


@triton.jit(do_not_specialize=["time", "batch"])
def _backward(
    into_outputs,
    into_h,
    c0,
    recurrent,
    bias,
    to_query,
    to_key,
    v,
    queries,
    rows,
    attention,
    moved,
    dropped,
    gates,
    cs,
    last,
    drive,
    into_queries,
    into_keys,
    directions,
    into_s,
    into_c,
    into_rows,
    time,
    batch,
    size,
    scale,
    shrink,
    NU: tl.constexpr,
    RHO: tl.constexpr,
    COLUMNS: tl.constexpr,
    PLACES: tl.constexpr,
    CELL: tl.constexpr,
    ADDITIVE: tl.constexpr,
    NORMALISED: tl.constexpr,
):
    SLOTS: tl.constexpr = NU + RHO
    b = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, COLUMNS)
    slots = tl.arange(0, PLACES)
    inside = (slots < SLOTS)[:, None] & (columns < size)[None, :]
    of_slots = (slots[:, None] * batch + b) * 2 * size + columns[None, :]
    values = tl.load(last + of_slots, mask=inside, other=0.0)
    keys = tl.load(last + of_slots + size, mask=inside, other=0.0)
    to_values = tl.load(into_rows + of_slots, mask=inside, other=0.0)
    to_keys = tl.load(into_rows + of_slots + size, mask=inside, other=0.0)
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
        t = b * 0 + time - 1 - back
        here = (t * batch + b) * size
        g = scale * (vector(into_outputs + here, columns, size) + ds)
        query = vector(queries + here, columns, size)
        a = tl.load(attention + (t * SLOTS + slots) * batch + b, mask=slots < SLOTS, other=0.0)

        # attention
        share = a * tl.sum(values * g[None, :], 1)
        de = share - a * tl.sum(share, 0)
        to_values += a[:, None] * g[None, :]
        _, bent = compared(query, keys, direction, shrink, ADDITIVE)
        into_each, dquery, into_direction = pull_scores(de, bent, query, direction, shrink, ADDITIVE)
        to_keys += into_each
        dv += into_direction
        tl.store(into_queries + here + columns, dquery, mask=columns < size)

        # the row of this step: all its uses have been counted
        at_ring = slots == t % NU
        dkey = tl.sum(tl.where(at_ring[:, None], to_keys, 0.0), 0)
        dh = g + at_end + tl.sum(tl.where(at_ring[:, None], to_values, 0.0), 0)
        dh += transposed_times(to_key, dkey, columns, size)
        at_end = tl.zeros([COLUMNS], tl.float32)
        tl.store(into_keys + here + columns, dkey, mask=columns < size)

        # restore the row that left the ring, and the row of the relevant set that it replaced
        target = slots == tl.load(moved + t * batch + b)
        from_value = tl.sum(tl.where(target[:, None], to_values, 0.0), 0)
        from_key = tl.sum(tl.where(target[:, None], to_keys, 0.0), 0)
        to_values = tl.where(at_ring[:, None], from_value[None, :], tl.where(target[:, None], 0.0, to_values))
        to_keys = tl.where(at_ring[:, None], from_key[None, :], tl.where(target[:, None], 0.0, to_keys))
        left = rows + (tl.where(t < NU, t, SLOTS + t - NU) * batch + b) * 2 * size
        lost = rows + (tl.load(dropped + t * batch + b) * batch + b) * 2 * size
        left_value = vector(left, columns, size)
        left_key = vector(left + size, columns, size)
        lost_value = vector(lost, columns, size)
        lost_key = vector(lost + size, columns, size)
        values = tl.where(target[:, None], lost_value[None, :], values)
        values = tl.where(at_ring[:, None], left_value[None, :], values)
        keys = tl.where(target[:, None], lost_key[None, :], keys)
        keys = tl.where(at_ring[:, None], left_key[None, :], keys)

        # the cell
        h = vector(rows + (SLOTS * batch + t * batch + b) * 2 * size, columns, size)
        before = tl.where(t > 0, here - batch * size, -1)
        ds, dc = pull_cell(
            dh, dc, h, own, recurrent, gates, cs, c0 + b * size, drive, here, before, columns, size, CELL
        )
        ds += transposed_times(to_query, dquery, columns, size)
    tl.store(into_s + b * size + columns, ds, mask=columns < size)
    tl.store(directions + b * size + columns, dv, mask=columns < size)
    if CELL == "lstm":
        tl.store(into_c + b * size + columns, dc, mask=columns < size)
    tl.store(into_rows + of_slots, to_values, mask=inside)
    tl.store(into_rows + of_slots + size, to_keys, mask=inside)
