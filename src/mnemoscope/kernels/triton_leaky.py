"""Leaky units on a GPU: several programs share the units of a batch tile, as in `triton_grid`.

The formulas are those of `leaky`. The forward kernel stores the rates of all steps, and in the rate form also
p = phi(W r + u), from which the adjoint takes the slopes of phi.
"""

from __future__ import annotations

import triton
import triton.language as tl

from mnemoscope.kernels.triton_grid import PADDING, arrive, columns_of, gathered_times, meet
from mnemoscope.kernels.triton_parts import nonlinear, prepared, pull_back, tile


@triton.jit(do_not_specialize=["leak", "begin", "end", "time", "batch", "slices"])  # one kernel for all of them
def leaky_forward(
    us,
    first,
    W,
    mask,
    rates,
    inner,
    last,
    counters,
    begin,
    end,
    time,
    batch,
    units,
    slices,
    leak,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
    PHI: tl.constexpr,
    RATE: tl.constexpr,
    MASKED: tl.constexpr,
    EXACT: tl.constexpr,
    MEET: tl.constexpr,
):
    """Compute `rates`, in the rate form also `inner` (p), and `last`, which holds the first state at the start.

    `first` are the rates of that state.
    """
    row, column = tl.program_id(1) * ROWS, tl.program_id(0) * UNITS
    rows, unit, here, inside = tile(row, column, batch, units, ROWS, UNITS)
    W1, W2, W3 = prepared(columns_of(W, 1, units, unit, units, PART, PARTS), EXACT)
    counter = counters + tl.program_id(1) * PADDING
    stride = (batch * units).to(tl.int64)
    us += begin * stride
    rates += begin * stride
    inner += begin * stride
    mask += begin * batch.to(tl.int64)
    state = tl.load(last + here, mask=inside, other=0.0)
    u = tl.load(us + here, mask=inside, other=0.0)
    for t in range(begin, end):
        us += stride
        later = tl.load(us + here, mask=inside & (t + 1 < end), other=0.0)
        before = rates - stride
        if t == 0:
            before = first
        if MEET:
            meet(counter, slices * (t - begin))
        target = tl.sum(gathered_times(before, W1, W2, W3, rows, batch, units, units, PART, PARTS, EXACT), 0) + u
        if RATE:
            target = nonlinear(target, 0.0, PHI)
        new = (1 - leak) * state + leak * target
        if MASKED:
            goes = (tl.load(mask + rows, mask=rows < batch, other=0) != 0)[:, None]
            new = tl.where(goes, new, state)
        state = new
        if RATE:
            tl.store(rates + here, state, mask=inside)
        else:
            tl.store(rates + here, nonlinear(state, 0.0, PHI), mask=inside)
        if MEET:
            arrive(counter)
        if RATE:
            tl.store(inner + here, target, mask=inside)
        rates += stride
        inner += stride
        mask += batch
        u = later
    tl.store(last + here, state, mask=inside)


@triton.jit(do_not_specialize=["leak", "begin", "end", "time", "batch", "slices"])  # one kernel for all of them
def leaky_adjoint(
    g,
    first,
    outputs,
    W,
    mask,
    D,
    carried,
    counters,
    begin,
    end,
    time,
    batch,
    units,
    slices,
    leak,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
    PHI: tl.constexpr,
    RATE: tl.constexpr,
    MASKED: tl.constexpr,
    EXACT: tl.constexpr,
    MEET: tl.constexpr,
):
    """Compute `D`, and in `carried` the gradient of the first state; at the start it holds that of the last one.

    The `outputs` of phi are p in the rate form, and otherwise the rates, whose first ones are `first`. Steps are
    counted from the last one; between launches `carried` holds what passes to the step before.
    """
    row, column = tl.program_id(1) * ROWS, tl.program_id(0) * UNITS
    rows, unit, here, inside = tile(row, column, batch, units, ROWS, UNITS)
    W1, W2, W3 = prepared(columns_of(W, units, 1, unit, units, PART, PARTS), EXACT)
    counter = counters + tl.program_id(1) * PADDING
    stride = (batch * units).to(tl.int64)
    g += (time - 1 - begin) * stride
    outputs += (time - 1 - begin) * stride
    D += (time - 1 - begin) * stride
    mask += (time - 1 - begin) * batch.to(tl.int64)
    passed = tl.load(carried + here, mask=inside, other=0.0)
    output = tl.load(outputs + here, mask=inside & (begin < time), other=0.0)
    if begin == time:
        output = tl.load(first + here, mask=inside, other=0.0)
    g_t = tl.load(g + here, mask=inside & (begin < time), other=0.0)
    for back in range(begin, end):  # back = time is the step to the first state
        earlier = outputs - stride
        if back + 1 >= time:
            earlier = first
        output_before = tl.load(earlier + here, mask=inside, other=0.0)
        g_before = tl.load(g - stride + here, mask=inside & (back + 1 < time), other=0.0)
        total = g_t
        if back > 0:
            if MEET:
                meet(counter, slices * (back - begin))
            sums = gathered_times(D + stride, W1, W2, W3, rows, batch, units, units, PART, PARTS, EXACT)
            total += tl.sum(sums, 0)
        if not RATE:
            total = pull_back(total, output, 0.0, PHI)
        G = passed + total
        passed = G
        if back < time:
            d = leak * G
            passed = (1 - leak) * G
            if RATE:
                d = pull_back(d, output, 0.0, PHI)
            if MASKED:
                goes = (tl.load(mask + rows, mask=rows < batch, other=0) != 0)[:, None]
                d = tl.where(goes, d, 0.0)
                passed = tl.where(goes, passed, G)
            tl.store(D + here, d, mask=inside)
            if MEET:
                arrive(counter)
        g -= stride
        outputs -= stride
        D -= stride
        mask -= batch
        output = output_before
        g_t = g_before
    tl.store(carried + here, passed, mask=inside)
