"""sLSTM on a GPU: several programs share the units of a batch tile, as GRU and LSTM do in `triton_gated_grid`.

The formulas and their names are those of `slstm`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from mnemoscope.kernels.triton_gated_grid import four, load_four, load_gate, load_sums, store_four, sums_of_gates
from mnemoscope.kernels.triton_grid import PADDING, arrive, gathered_times, meet
from mnemoscope.kernels.triton_parts import nonlinear, prepared, tile

TINY = tl.constexpr(1.1754943508222875e-38)
"""Smallest normal number of float32."""
LARGEST = tl.constexpr(40.0)
"""Largest logarithm of f, as in `slstm`."""


@triton.jit
def _log_sigmoid(x):
    small = tl.exp(-tl.abs(x))
    rest = tl.where(small < 1e-4, small * (1 - 0.5 * small), tl.log(1 + small))  # log(1 + small) without cancellation
    return tl.minimum(x, 0.0) - rest


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "slices"])  # one kernel for all lengths and batches
def slstm_forward(
    us,
    h0,
    c0,
    n0,
    V,
    mask,
    hs,
    cs,
    ns,
    gates,
    log_f,
    last_m,
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
    EXPONENTIAL: tl.constexpr,
    MASKED: tl.constexpr,
    EXACT: tl.constexpr,
    MEET: tl.constexpr,
):
    """Compute `hs`, `cs`, `ns`, the `gates` i, f, z and o, `log_f`, and `last_m`, which holds the first m at the start."""
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
    ns += begin * stride
    gates += 4 * begin * stride
    log_f += begin * stride
    h_start, c_start, n_start = hs - stride, cs - stride, ns - stride
    if begin == 0:
        h_start, c_start, n_start = h0, c0, n0
    h = tl.load(h_start + here, mask=inside, other=0.0)
    c = tl.load(c_start + here, mask=inside, other=0.0)
    n = tl.load(n_start + here, mask=inside, other=0.0)
    m = tl.load(last_m + here, mask=inside, other=0.0)
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
        a_i, a_f, z, o = four(tl.sum(product, 0) + u, ROWS, UNITS)
        l_f = a_f
        if not EXPONENTIAL:
            l_f = _log_sigmoid(a_f)
        kept = l_f + m
        top = tl.where(n == 0, a_i, tl.maximum(kept, a_i))
        i = tl.exp(a_i - top)
        f = tl.exp(tl.minimum(kept - top, LARGEST))
        z = nonlinear(z, 0.0, "tanh")
        o = nonlinear(o, 0.0, "logistic")
        new_c = f * c + i * z
        new_n = f * n + i
        new_h = o * (new_c / tl.maximum(new_n, TINY))
        if MASKED:
            goes = (tl.load(mask + rows, mask=rows < batch, other=0) != 0)[:, None]
            new_h = tl.where(goes, new_h, h)
            new_c = tl.where(goes, new_c, c)
            new_n = tl.where(goes, new_n, n)
            top = tl.where(goes, top, m)
        h = new_h
        c = new_c
        n = new_n
        m = top
        tl.store(hs + here, h, mask=inside)
        if MEET:
            arrive(counter)  # the others need h alone
        tl.store(cs + here, c, mask=inside)
        tl.store(ns + here, n, mask=inside)
        tl.store(log_f + here, l_f, mask=inside)
        store_four(gates + saved, units, inside, i, f, z, o)
        hs += stride
        cs += stride
        ns += stride
        gates += 4 * stride
        log_f += stride
        mask += batch
        u = later
    tl.store(last_m + here, m, mask=inside)


@triton.jit(do_not_specialize=["begin", "end", "time", "batch", "slices"])  # one kernel for all lengths and batches
def slstm_adjoint(
    g_h,
    c0,
    n0,
    cs,
    ns,
    gates,
    slopes,
    V,
    mask,
    D,
    dh0,
    dc,
    dn,
    excess,
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
    """Compute `D` (time, batch, 4 units) and `dh0`, and carry C (`dc`), N (`dn`) and E (`excess`) back to the start.

    At the start they hold the gradients at the last state, and `dh0` zeros. Steps are counted from the last one.
    """
    row, first = tl.program_id(1) * ROWS, tl.program_id(0) * UNITS
    rows, unit, here, inside = tile(row, first, batch, units, ROWS, UNITS)
    I1, I2, I3 = prepared(load_gate(V, 0, unit, units, PART, PARTS), EXACT)
    F1, F2, F3 = prepared(load_gate(V, 1, unit, units, PART, PARTS), EXACT)
    Z1, Z2, Z3 = prepared(load_gate(V, 2, unit, units, PART, PARTS), EXACT)
    O1, O2, O3 = prepared(load_gate(V, 3, unit, units, PART, PARTS), EXACT)
    saved = rows[:, None] * (4 * units) + unit[None, :]
    counter = counters + tl.program_id(1) * PADDING
    stride = (batch * units).to(tl.int64)
    g_h += (time - 1 - begin) * stride
    cs += (time - 1 - begin) * stride
    ns += (time - 1 - begin) * stride
    slopes += (time - 1 - begin) * stride
    gates += 4 * (time - 1 - begin) * stride
    D += 4 * (time - 1 - begin) * stride
    mask += (time - 1 - begin) * batch.to(tl.int64)
    there = inside & (begin < time)
    g_t = tl.load(g_h + here, mask=there, other=0.0)
    c = tl.load(cs + here, mask=there, other=0.0)
    n = tl.load(ns + here, mask=there, other=0.0)
    slope = tl.load(slopes + here, mask=there, other=0.0)
    i, f, z, o = load_four(gates + saved, units, there)
    held = tl.load(dh0 + here, mask=inside, other=0.0)
    C = tl.load(dc + here, mask=inside, other=0.0)
    N = tl.load(dn + here, mask=inside, other=0.0)
    E = tl.load(excess + here, mask=inside, other=0.0)
    for back in range(begin, end):  # back = time is the step to h0, which has no gates
        c_earlier, n_earlier = cs - stride, ns - stride
        if back + 1 >= time:
            c_earlier, n_earlier = c0, n0
        more = inside & (back + 1 < time)
        c_before = tl.load(c_earlier + here, mask=inside, other=0.0)
        n_before = tl.load(n_earlier + here, mask=inside, other=0.0)
        g_before = tl.load(g_h - stride + here, mask=more, other=0.0)
        next_slope = tl.load(slopes - stride + here, mask=more, other=0.0)
        next_i, next_f, next_z, next_o = load_four(gates - 4 * stride + saved, units, more)
        H = g_t + held
        if back > 0:
            if MEET:
                meet(counter, slices * (back - begin))
            later = D + 4 * stride
            sums = gathered_times(later, I1, I2, I3, rows, batch, 4 * units, units, PART, PARTS, EXACT)
            sums += gathered_times(later + units, F1, F2, F3, rows, batch, 4 * units, units, PART, PARTS, EXACT)
            sums += gathered_times(later + 2 * units, Z1, Z2, Z3, rows, batch, 4 * units, units, PART, PARTS, EXACT)
            sums += gathered_times(later + 3 * units, O1, O2, O3, rows, batch, 4 * units, units, PART, PARTS, EXACT)
            H += tl.sum(sums, 0)
        held = H
        if back < time:
            size = tl.where(n > 0, n, 1.0)  # n is 0 at held steps before the first write, which are left out below
            ratio = c / size
            into_c = o / size
            new_C = C + H * into_c
            new_N = N - H * into_c * ratio
            w = tl.where((f == 1) & (n_before != 0), tl.where(i == 1, 0.5, 1.0), 0.0)
            new_E = E * w
            d_i = (new_C * z + new_N) * i + E - new_E
            d_f = ((new_C * c_before + new_N * n_before) * f + new_E) * slope
            d_z = new_C * i * (1 - z * z)
            d_o = H * ratio * o * (1 - o)
            new_C *= f
            new_N *= f
            held = tl.zeros_like(H)
            if MASKED:
                goes = (tl.load(mask + rows, mask=rows < batch, other=0) != 0)[:, None]
                d_i = tl.where(goes, d_i, 0.0)
                d_f = tl.where(goes, d_f, 0.0)
                d_z = tl.where(goes, d_z, 0.0)
                d_o = tl.where(goes, d_o, 0.0)
                new_C = tl.where(goes, new_C, C)
                new_N = tl.where(goes, new_N, N)
                new_E = tl.where(goes, new_E, E)
                held = tl.where(goes, 0.0, H)
            C = new_C
            N = new_N
            E = new_E
            store_four(D + saved, units, inside, d_i, d_f, d_z, d_o)
            if MEET:
                arrive(counter)
        g_h -= stride
        cs -= stride
        ns -= stride
        slopes -= stride
        gates -= 4 * stride
        D -= 4 * stride
        mask -= batch
        g_t = g_before
        c = c_before
        n = n_before
        slope = next_slope
        i, f, z, o = next_i, next_f, next_z, next_o
    tl.store(dh0 + here, held, mask=inside)
    tl.store(dc + here, C, mask=inside)
    tl.store(dn + here, N, mask=inside)
    tl.store(excess + here, E, mask=inside)
