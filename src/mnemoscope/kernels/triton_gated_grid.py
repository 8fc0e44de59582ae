"""GRU and LSTM of many units on a GPU: several programs share the units of a batch tile, as in `triton_grid`.

Each program holds the weights of all gates of its units on chip. After every step the programs of a tile synchronise
and read each other's states, and on the way back each other's gradients, from the L2 cache. The forward kernels store
the gates, which the adjoints need; `D` is the gradient at the sums before the nonlinearities.
"""

from __future__ import annotations

import triton
import triton.language as tl

from mnemoscope.kernels.triton_grid import PADDING, arrive, columns_of, gathered_times, meet
from mnemoscope.kernels.triton_parts import bias_row, nonlinear, prepared, pull_back, tile


@triton.jit
def sums_of_gates(rows, first, batch, units, GATES: tl.constexpr, UNITS: tl.constexpr):
    """Return the rows of V for the sums of a program, their offsets in the drive, and which of them exist.

    The sums of a unit lie side by side, in four columns; a GRU leaves the fourth empty.
    """
    column = tl.arange(0, 4 * UNITS)
    unit, gate = first + column // 4, column % 4
    sums = gate * units + unit
    exists = (unit < units) & (gate < GATES)
    return sums, rows[:, None] * (GATES * units) + sums[None, :], exists


@triton.jit
def load_sums(V, sums, exists, units, PART: tl.constexpr, PARTS: tl.constexpr):
    """Load the rows of V that belong to the sums of a program, as columns of a stack of matrices."""
    inner = tl.arange(0, PARTS)[:, None, None] * PART + tl.arange(0, PART)[None, :, None]
    return tl.load(V + sums[None, None, :] * units + inner, mask=(inner < units) & exists[None, None, :], other=0.0)


@triton.jit
def load_gate(V, gate, unit, units, PART: tl.constexpr, PARTS: tl.constexpr):
    """Load the columns of a gate's matrix that belong to the units of a program."""
    return columns_of(V + gate * units * units, units, 1, unit, units, PART, PARTS)


@triton.jit
def four(sums, ROWS: tl.constexpr, UNITS: tl.constexpr):
    """Divide sums whose columns are the four gates of each unit into one tile for each gate."""
    even, odd = tl.split(tl.reshape(sums, [ROWS, UNITS, 2, 2]))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def load_four(p, units, inside):
    return (
        tl.load(p, mask=inside, other=0.0),
        tl.load(p + units, mask=inside, other=0.0),
        tl.load(p + 2 * units, mask=inside, other=0.0),
        tl.load(p + 3 * units, mask=inside, other=0.0),
    )


@triton.jit
def store_four(p, units, inside, a, b, c, d):
    tl.store(p, a, mask=inside)
    tl.store(p + units, b, mask=inside)
    tl.store(p + 2 * units, c, mask=inside)
    tl.store(p + 3 * units, d, mask=inside)


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "slices"])  # one kernel for all lengths and batches
def lstm_forward(
    us,
    h0,
    c0,
    V,
    mask,
    hs,
    cs,
    gates,
    counters,
    begin,
    end,
    time,
    batch,
    units,
    slices,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
    MASKED: tl.constexpr,
    SAVE: tl.constexpr,
    EXACT: tl.constexpr,
    MEET: tl.constexpr,
):
    """Compute `hs`, `cs` and, if `SAVE`, the `gates` i, f, g and o (time, batch, 4 units) from `begin` to `end`."""
    row, first = tl.program_id(1) * ROWS, tl.program_id(0) * UNITS
    rows, unit, here, inside = tile(row, first, batch, units, ROWS, UNITS)
    sums, drive, exists = sums_of_gates(rows, first, batch, units, 4, UNITS)
    W1, W2, W3 = prepared(load_sums(V, sums, exists, units, PART, PARTS), EXACT)
    valid = (rows < batch)[:, None] & exists[None, :]
    saved = rows[:, None] * (4 * units) + unit[None, :]
    counter = counters + tl.program_id(1) * PADDING
    stride = (batch * units).to(tl.int64)
    us += 4 * begin * stride
    mask += begin * batch.to(tl.int64)
    hs += begin * stride
    cs += begin * stride
    gates += 4 * begin * stride
    h_start, c_start = hs - stride, cs - stride
    if begin == 0:
        h_start, c_start = h0, c0
    h = tl.load(h_start + here, mask=inside, other=0.0)
    c = tl.load(c_start + here, mask=inside, other=0.0)
    u = tl.load(us + drive, mask=valid, other=0.0)
    for t in range(begin, end):
        us += 4 * stride
        later = tl.load(us + drive, mask=valid & (t + 1 < end), other=0.0)
        before = hs - stride
        if t == 0:
            before = h0
        if MEET:
            meet(counter, slices * (t - begin))
        product = gathered_times(before, W1, W2, W3, rows, batch, units, units, PART, PARTS, EXACT)
        i, f, g, o = four(tl.sum(product, 0) + u, ROWS, UNITS)
        i = nonlinear(i, 0.0, "logistic")
        f = nonlinear(f, 0.0, "logistic")
        g = nonlinear(g, 0.0, "tanh")
        o = nonlinear(o, 0.0, "logistic")
        new_c = f * c + i * g
        new_h = o * nonlinear(new_c, 0.0, "tanh")
        if MASKED:
            goes = (tl.load(mask + rows, mask=rows < batch, other=0) != 0)[:, None]
            new_c = tl.where(goes, new_c, c)
            new_h = tl.where(goes, new_h, h)
        c = new_c
        h = new_h
        tl.store(hs + here, h, mask=inside)
        if MEET:
            arrive(counter)  # the others need h alone
        tl.store(cs + here, c, mask=inside)
        if SAVE:
            store_four(gates + saved, units, inside, i, f, g, o)
        hs += stride
        cs += stride
        gates += 4 * stride
        mask += batch
        u = later


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "slices"])  # one kernel for all lengths and batches
def lstm_adjoint(
    g_h,
    c0,
    cs,
    gates,
    V,
    mask,
    D,
    dh0,
    dc0,
    counters,
    begin,
    end,
    time,
    batch,
    units,
    slices,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
    MASKED: tl.constexpr,
    EXACT: tl.constexpr,
    MEET: tl.constexpr,
):
    """Compute `D` (time, batch, 4 units), `dh0` and `dc0` from step `begin` to `end`, counted from the last one.

    At the start `dc0` holds the gradient of the last c, and `dh0` zeros; between launches they hold what is carried.
    """
    row, first = tl.program_id(1) * ROWS, tl.program_id(0) * UNITS
    rows, unit, here, inside = tile(row, first, batch, units, ROWS, UNITS)
    I1, I2, I3 = prepared(load_gate(V, 0, unit, units, PART, PARTS), EXACT)
    F1, F2, F3 = prepared(load_gate(V, 1, unit, units, PART, PARTS), EXACT)
    G1, G2, G3 = prepared(load_gate(V, 2, unit, units, PART, PARTS), EXACT)
    O1, O2, O3 = prepared(load_gate(V, 3, unit, units, PART, PARTS), EXACT)
    saved = rows[:, None] * (4 * units) + unit[None, :]
    counter = counters + tl.program_id(1) * PADDING
    stride = (batch * units).to(tl.int64)
    g_h += (time - 1 - begin) * stride
    cs += (time - 1 - begin) * stride
    gates += 4 * (time - 1 - begin) * stride
    D += 4 * (time - 1 - begin) * stride
    mask += (time - 1 - begin) * batch.to(tl.int64)
    there = inside & (begin < time)
    g_t = tl.load(g_h + here, mask=there, other=0.0)
    c = tl.load(cs + here, mask=there, other=0.0)
    i, f, g, o = load_four(gates + saved, units, there)
    held = tl.load(dh0 + here, mask=inside, other=0.0)
    dc = tl.load(dc0 + here, mask=inside, other=0.0)
    for back in range(begin, end):  # back = time is the step to h0, which has no gates
        earlier = cs - stride
        if back + 1 >= time:
            earlier = c0
        more = inside & (back + 1 < time)
        c_before = tl.load(earlier + here, mask=inside, other=0.0)
        g_before = tl.load(g_h - stride + here, mask=more, other=0.0)
        next_i, next_f, next_g, next_o = load_four(gates - 4 * stride + saved, units, more)
        total = g_t + held
        if back > 0:
            if MEET:
                meet(counter, slices * (back - begin))
            later = D + 4 * stride
            sums = gathered_times(later, I1, I2, I3, rows, batch, 4 * units, units, PART, PARTS, EXACT)
            sums += gathered_times(later + units, F1, F2, F3, rows, batch, 4 * units, units, PART, PARTS, EXACT)
            sums += gathered_times(later + 2 * units, G1, G2, G3, rows, batch, 4 * units, units, PART, PARTS, EXACT)
            sums += gathered_times(later + 3 * units, O1, O2, O3, rows, batch, 4 * units, units, PART, PARTS, EXACT)
            total += tl.sum(sums, 0)
        held = total
        if back < time:
            s = nonlinear(c, 0.0, "tanh")
            d_c = dc + total * o * (1 - s * s)
            d_i = d_c * g * i * (1 - i)
            d_f = d_c * c_before * f * (1 - f)
            d_g = d_c * i * (1 - g * g)
            d_o = total * s * o * (1 - o)
            d_c = d_c * f
            held = tl.zeros_like(total)
            if MASKED:
                goes = (tl.load(mask + rows, mask=rows < batch, other=0) != 0)[:, None]
                d_i = tl.where(goes, d_i, 0.0)
                d_f = tl.where(goes, d_f, 0.0)
                d_g = tl.where(goes, d_g, 0.0)
                d_o = tl.where(goes, d_o, 0.0)
                d_c = tl.where(goes, d_c, dc)
                held = tl.where(goes, 0.0, total)
            dc = d_c
            store_four(D + saved, units, inside, d_i, d_f, d_g, d_o)
            if MEET:
                arrive(counter)
        g_h -= stride
        cs -= stride
        gates -= 4 * stride
        D -= 4 * stride
        mask -= batch
        g_t = g_before
        c = c_before
        i, f, g, o = next_i, next_f, next_g, next_o
    tl.store(dh0 + here, held, mask=inside)
    tl.store(dc0 + here, dc, mask=inside)


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "slices"])  # one kernel for all lengths and batches
def gru_forward(
    us,
    h0,
    V,
    bias,
    threshold,
    mask,
    hs,
    gates,
    counters,
    begin,
    end,
    time,
    batch,
    units,
    slices,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
    PHI: tl.constexpr,
    MASKED: tl.constexpr,
    SAVE: tl.constexpr,
    EXACT: tl.constexpr,
    MEET: tl.constexpr,
):
    """Compute `hs` and, if `SAVE`, the `gates` r, z, v and n (time, batch, 4 units).

    The `bias` is that of v, and `threshold` that of the candidate's nonlinearity.
    """
    row, first = tl.program_id(1) * ROWS, tl.program_id(0) * UNITS
    rows, unit, here, inside = tile(row, first, batch, units, ROWS, UNITS)
    sums, drive, exists = sums_of_gates(rows, first, batch, units, 3, UNITS)
    W1, W2, W3 = prepared(load_sums(V, sums, exists, units, PART, PARTS), EXACT)
    valid = (rows < batch)[:, None] & exists[None, :]
    saved = rows[:, None] * (4 * units) + unit[None, :]
    b = tl.load(bias + unit, mask=unit < units, other=0.0)[None, :]
    limit = bias_row(threshold, unit, units, PHI)
    counter = counters + tl.program_id(1) * PADDING
    stride = (batch * units).to(tl.int64)
    us += 3 * begin * stride
    mask += begin * batch.to(tl.int64)
    hs += begin * stride
    gates += 4 * begin * stride
    start = hs - stride
    if begin == 0:
        start = h0
    h = tl.load(start + here, mask=inside, other=0.0)
    u = tl.load(us + drive, mask=valid, other=0.0)
    for t in range(begin, end):
        us += 3 * stride
        later = tl.load(us + drive, mask=valid & (t + 1 < end), other=0.0)
        before = hs - stride
        if t == 0:
            before = h0
        if MEET:
            meet(counter, slices * (t - begin))
        u_r, u_z, u_n, _ = four(u, ROWS, UNITS)
        product = gathered_times(before, W1, W2, W3, rows, batch, units, units, PART, PARTS, EXACT)
        r, z, v, _ = four(tl.sum(product, 0), ROWS, UNITS)
        r = nonlinear(r + u_r, 0.0, "logistic")
        z = nonlinear(z + u_z, 0.0, "logistic")
        v += b
        n = nonlinear(u_n + r * v, limit, PHI)
        new = n + z * (h - n)
        if MASKED:
            goes = (tl.load(mask + rows, mask=rows < batch, other=0) != 0)[:, None]
            new = tl.where(goes, new, h)
        h = new
        tl.store(hs + here, h, mask=inside)
        if MEET:
            arrive(counter)  # the others need h alone
        if SAVE:
            store_four(gates + saved, units, inside, r, z, v, n)
        hs += stride
        gates += 4 * stride
        mask += batch
        u = later


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "slices"])  # one kernel for all lengths and batches
def gru_adjoint(
    g_h,
    h0,
    hs,
    gates,
    V,
    threshold,
    mask,
    D,
    dh0,
    counters,
    begin,
    end,
    time,
    batch,
    units,
    slices,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
    PHI: tl.constexpr,
    MASKED: tl.constexpr,
    EXACT: tl.constexpr,
    MEET: tl.constexpr,
):
    """Compute `D` (time, batch, 4 units), the gradients at v and at the sums of r, z and n, and `dh0`.

    The steps are those of `lstm_adjoint`; `dh0` holds zeros at the start, and between launches what is carried.
    """
    row, first = tl.program_id(1) * ROWS, tl.program_id(0) * UNITS
    rows, unit, here, inside = tile(row, first, batch, units, ROWS, UNITS)
    R1, R2, R3 = prepared(load_gate(V, 0, unit, units, PART, PARTS), EXACT)
    Z1, Z2, Z3 = prepared(load_gate(V, 1, unit, units, PART, PARTS), EXACT)
    N1, N2, N3 = prepared(load_gate(V, 2, unit, units, PART, PARTS), EXACT)
    limit = bias_row(threshold, unit, units, PHI)
    saved = rows[:, None] * (4 * units) + unit[None, :]
    counter = counters + tl.program_id(1) * PADDING
    stride = (batch * units).to(tl.int64)
    g_h += (time - 1 - begin) * stride
    hs += (time - 1 - begin) * stride
    gates += 4 * (time - 1 - begin) * stride
    D += 4 * (time - 1 - begin) * stride
    mask += (time - 1 - begin) * batch.to(tl.int64)
    there = inside & (begin < time)
    g_t = tl.load(g_h + here, mask=there, other=0.0)
    r, z, v, n = load_four(gates + saved, units, there)
    held = tl.load(dh0 + here, mask=inside, other=0.0)
    for back in range(begin, end):  # back = time is the step to h0, which has no gates
        earlier = hs - stride
        if back + 1 >= time:
            earlier = h0
        more = inside & (back + 1 < time)
        h_before = tl.load(earlier + here, mask=inside, other=0.0)
        g_before = tl.load(g_h - stride + here, mask=more, other=0.0)
        next_r, next_z, next_v, next_n = load_four(gates - 4 * stride + saved, units, more)
        total = g_t + held
        if back > 0:
            if MEET:
                meet(counter, slices * (back - begin))
            later = D + 4 * stride
            sums = gathered_times(later, N1, N2, N3, rows, batch, 4 * units, units, PART, PARTS, EXACT)
            sums += gathered_times(later + units, R1, R2, R3, rows, batch, 4 * units, units, PART, PARTS, EXACT)
            sums += gathered_times(later + 2 * units, Z1, Z2, Z3, rows, batch, 4 * units, units, PART, PARTS, EXACT)
            total += tl.sum(sums, 0)
        held = total
        if back < time:
            d_n = pull_back(total * (1 - z), n, limit, PHI)
            d_z = total * (h_before - n) * z * (1 - z)
            d_r = d_n * v * r * (1 - r)
            d_v = d_n * r
            held = total * z
            if MASKED:
                goes = (tl.load(mask + rows, mask=rows < batch, other=0) != 0)[:, None]
                d_r = tl.where(goes, d_r, 0.0)
                d_z = tl.where(goes, d_z, 0.0)
                d_n = tl.where(goes, d_n, 0.0)
                d_v = tl.where(goes, d_v, 0.0)
                held = tl.where(goes, held, total)
            store_four(D + saved, units, inside, d_v, d_r, d_z, d_n)
            if MEET:
                arrive(counter)
        g_h -= stride
        hs -= stride
        gates -= 4 * stride
        D -= 4 * stride
        mask -= batch
        g_t = g_before
        r, z, v, n = next_r, next_z, next_v, next_n
    tl.store(dh0 + here, held, mask=inside)
