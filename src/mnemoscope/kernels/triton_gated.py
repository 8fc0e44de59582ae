"""GRU and LSTM of few units on a GPU: one program takes one sequence through all times, as in `triton_vector`.

The registers hold the matrices of all gates. Inputs are read two steps ahead. The forward kernels store the gates,
which the adjoints need; `D` is the gradient at the sums before the nonlinearities.
"""

from __future__ import annotations

import triton.language as tl

from mnemoscope.kernels import triton_parts
from mnemoscope.kernels.triton_layouts import gl, jit
from mnemoscope.kernels.triton_vector import load_matrix

_nonlinear = jit(triton_parts.nonlinear.fn)
_pull_back = jit(triton_parts.pull_back.fn)


@jit
def _load(p, units, valid):
    """Load the four vectors of a step, which lie side by side."""
    return (
        gl.load(p, mask=valid, other=0.0).to(gl.float32),
        gl.load(p + units, mask=valid, other=0.0).to(gl.float32),
        gl.load(p + 2 * units, mask=valid, other=0.0).to(gl.float32),
        gl.load(p + 3 * units, mask=valid, other=0.0).to(gl.float32),
    )


@jit
def _store(p, units, valid, a, b, c, d):
    gl.store(p, a, mask=valid)
    gl.store(p + units, b, mask=valid)
    gl.store(p + 2 * units, c, mask=valid)
    gl.store(p + 3 * units, d, mask=valid)


@jit(do_not_specialize=["time", "batch"])  # one kernel for all lengths and batches
def lstm_forward(
    us,
    h0,
    c0,
    V,
    mask,
    hs,
    cs,
    gates,
    time,
    batch,
    units,
    COLUMNS: tl.constexpr,
    LAYOUT: tl.constexpr,
    MASKED: tl.constexpr,
    SAVE: tl.constexpr,
):
    """Compute `hs`, `cs` and, if `SAVE`, the `gates` i, f, g and o (time, batch, 4 units)."""
    square = units * units
    W_i = load_matrix(V, units, 1, units, 0, COLUMNS, COLUMNS, LAYOUT)
    W_f = load_matrix(V + square, units, 1, units, 0, COLUMNS, COLUMNS, LAYOUT)
    W_g = load_matrix(V + 2 * square, units, 1, units, 0, COLUMNS, COLUMNS, LAYOUT)
    W_o = load_matrix(V + 3 * square, units, 1, units, 0, COLUMNS, COLUMNS, LAYOUT)
    unit = gl.arange(0, COLUMNS, layout=gl.SliceLayout(1, LAYOUT))
    inside = unit < units
    none = gl.zeros([COLUMNS], gl.float32, layout=gl.SliceLayout(1, LAYOUT))
    row = gl.program_id(0)
    here = row * units + unit
    stride = (batch * units).to(gl.int64)
    h = gl.load(h0 + here, mask=inside, other=0.0)
    c = gl.load(c0 + here, mask=inside, other=0.0)
    hs += here
    cs += here
    us += row * 4 * units + unit
    gates += row * 4 * units + unit
    mask += row
    u_i, u_f, u_g, u_o = _load(us, units, inside)
    v_i, v_f, v_g, v_o = _load(us + 4 * stride, units, inside & (time > 1))
    us += 8 * stride
    if MASKED:
        goes = gl.load(mask)
        goes1 = gl.load(mask + batch, mask=time > 1, other=0)
        mask += 2 * batch
    for t in range(time):
        w_i, w_f, w_g, w_o = _load(us, units, inside & (t + 2 < time))
        us += 4 * stride
        x = gl.convert_layout(h, gl.SliceLayout(0, LAYOUT))[None, :]
        i = _nonlinear(gl.sum(W_i * x, 1) + u_i, none, "logistic")
        f = _nonlinear(gl.sum(W_f * x, 1) + u_f, none, "logistic")
        g = _nonlinear(gl.sum(W_g * x, 1) + u_g, none, "tanh")
        o = _nonlinear(gl.sum(W_o * x, 1) + u_o, none, "logistic")
        new_c = f * c + i * g
        new_h = o * _nonlinear(new_c, none, "tanh")
        if MASKED:
            new_c = gl.where(goes != 0, new_c, c)
            new_h = gl.where(goes != 0, new_h, h)
            goes = goes1
            goes1 = gl.load(mask, mask=t + 2 < time, other=0)
            mask += batch
        c = new_c
        h = new_h
        gl.store(hs, h, mask=inside)
        gl.store(cs, c, mask=inside)
        hs += stride
        cs += stride
        if SAVE:
            _store(gates, units, inside, i, f, g, o)
            gates += 4 * stride
        u_i, u_f, u_g, u_o = v_i, v_f, v_g, v_o
        v_i, v_f, v_g, v_o = w_i, w_f, w_g, w_o


@jit(do_not_specialize=["time", "batch"])  # one kernel for all lengths and batches
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
    time,
    batch,
    units,
    COLUMNS: tl.constexpr,
    LAYOUT: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Compute `D` (time, batch, 4 units), `dh0` and `dc0`, which holds the gradient of the last c at the start."""
    square = units * units
    W_i = load_matrix(V, units, units, 1, 0, COLUMNS, COLUMNS, LAYOUT)
    W_f = load_matrix(V + square, units, units, 1, 0, COLUMNS, COLUMNS, LAYOUT)
    W_g = load_matrix(V + 2 * square, units, units, 1, 0, COLUMNS, COLUMNS, LAYOUT)
    W_o = load_matrix(V + 3 * square, units, units, 1, 0, COLUMNS, COLUMNS, LAYOUT)
    INNER: tl.constexpr = gl.SliceLayout(0, LAYOUT)
    shared = gl.allocate_shared_memory(gl.float32, [4, COLUMNS], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    unit = gl.arange(0, COLUMNS, layout=gl.SliceLayout(1, LAYOUT))
    inside = unit < units
    none = gl.zeros([COLUMNS], gl.float32, layout=gl.SliceLayout(1, LAYOUT))
    row = gl.program_id(0)
    here = row * units + unit
    stride = (batch * units).to(gl.int64)
    last = (time - 1) * stride
    g_h += here + last
    cs += here + last
    gates += row * 4 * units + unit + 4 * last
    D += row * 4 * units + unit + 4 * last
    before0 = gl.load(c0 + here, mask=inside, other=0.0)
    total = gl.load(g_h, mask=inside, other=0.0)
    dc = gl.load(dc0 + here, mask=inside, other=0.0)
    c = gl.load(cs, mask=inside, other=0.0)
    c1 = gl.load(cs - stride, mask=inside & (time > 1), other=0.0)
    a_i, a_f, a_g, a_o = _load(gates, units, inside)
    b_i, b_f, b_g, b_o = _load(gates - 4 * stride, units, inside & (time > 1))
    g1 = gl.load(g_h - stride, mask=inside & (time > 1), other=0.0)
    g_h -= 2 * stride
    cs -= 2 * stride
    gates -= 8 * stride
    if MASKED:
        mask += row + (time - 1) * batch.to(gl.int64)
        goes = gl.load(mask)
        goes1 = gl.load(mask - batch, mask=time > 1, other=0)
        mask -= 2 * batch
    for t in range(time):
        more = inside & (t + 2 < time)
        e_i, e_f, e_g, e_o = _load(gates, units, more)
        g2 = gl.load(g_h, mask=more, other=0.0)
        c2 = gl.load(cs, mask=more, other=0.0)
        g_h -= stride
        cs -= stride
        gates -= 4 * stride
        c_before = gl.where(t + 1 < time, c1, before0)
        s = _nonlinear(c, none, "tanh")
        d_c = dc + total * a_o * (1 - s * s)
        d_i = d_c * a_g * a_i * (1 - a_i)
        d_f = d_c * c_before * a_f * (1 - a_f)
        d_g = d_c * a_i * (1 - a_g * a_g)
        d_o = total * s * a_o * (1 - a_o)
        if MASKED:
            d_i = gl.where(goes != 0, d_i, 0.0)
            d_f = gl.where(goes != 0, d_f, 0.0)
            d_g = gl.where(goes != 0, d_g, 0.0)
            d_o = gl.where(goes != 0, d_o, 0.0)
            held = gl.where(goes != 0, 0.0, total)
            dc = gl.where(goes != 0, d_c * a_f, dc)
            goes = goes1
            goes1 = gl.load(mask, mask=t + 2 < time, other=0)
            mask -= batch
        else:
            held = none
            dc = d_c * a_f
        _store(D, units, inside, d_i, d_f, d_g, d_o)
        D -= 4 * stride
        shared.index(0).store(d_i)  # through one memory: the threads wait for each other twice, not eight times
        shared.index(1).store(d_f)
        shared.index(2).store(d_g)
        shared.index(3).store(d_o)
        sums = W_i * shared.index(0).load(INNER)[None, :]
        sums += W_f * shared.index(1).load(INNER)[None, :]
        sums += W_g * shared.index(2).load(INNER)[None, :]
        sums += W_o * shared.index(3).load(INNER)[None, :]
        total = gl.sum(sums, 1) + held + g1  # after the first time, g1 is 0 and this is the gradient of h0
        c = c1
        c1 = c2
        g1 = g2
        a_i, a_f, a_g, a_o = b_i, b_f, b_g, b_o
        b_i, b_f, b_g, b_o = e_i, e_f, e_g, e_o
    gl.store(dh0 + here, total, mask=inside)
    gl.store(dc0 + here, dc, mask=inside)


@jit(do_not_specialize=["time", "batch"])  # one kernel for all lengths and batches
def gru_forward(
    us,
    h0,
    V,
    bias,
    threshold,
    mask,
    hs,
    gates,
    time,
    batch,
    units,
    COLUMNS: tl.constexpr,
    LAYOUT: tl.constexpr,
    PHI: tl.constexpr,
    MASKED: tl.constexpr,
    SAVE: tl.constexpr,
):
    """Compute `hs` and, if `SAVE`, the `gates` r, z, v and n (time, batch, 4 units).

    The `bias` is that of v, and `threshold` that of the candidate's nonlinearity.
    """
    square = units * units
    W_r = load_matrix(V, units, 1, units, 0, COLUMNS, COLUMNS, LAYOUT)
    W_z = load_matrix(V + square, units, 1, units, 0, COLUMNS, COLUMNS, LAYOUT)
    W_n = load_matrix(V + 2 * square, units, 1, units, 0, COLUMNS, COLUMNS, LAYOUT)
    unit = gl.arange(0, COLUMNS, layout=gl.SliceLayout(1, LAYOUT))
    inside = unit < units
    none = gl.zeros([COLUMNS], gl.float32, layout=gl.SliceLayout(1, LAYOUT))
    b = gl.load(bias + unit, mask=inside, other=0.0)
    limit = _threshold(threshold, unit, inside, none, PHI)
    row = gl.program_id(0)
    here = row * units + unit
    stride = (batch * units).to(gl.int64)
    h = gl.load(h0 + here, mask=inside, other=0.0)
    hs += here
    us += row * 3 * units + unit
    gates += row * 4 * units + unit
    mask += row
    u_r, u_z, u_n = _load_three(us, units, inside)
    v_r, v_z, v_n = _load_three(us + 3 * stride, units, inside & (time > 1))
    us += 6 * stride
    if MASKED:
        goes = gl.load(mask)
        goes1 = gl.load(mask + batch, mask=time > 1, other=0)
        mask += 2 * batch
    for t in range(time):
        w_r, w_z, w_n = _load_three(us, units, inside & (t + 2 < time))
        us += 3 * stride
        x = gl.convert_layout(h, gl.SliceLayout(0, LAYOUT))[None, :]
        r = _nonlinear(gl.sum(W_r * x, 1) + u_r, none, "logistic")
        z = _nonlinear(gl.sum(W_z * x, 1) + u_z, none, "logistic")
        v = gl.sum(W_n * x, 1) + b
        n = _nonlinear(u_n + r * v, limit, PHI)
        new = n + z * (h - n)
        if MASKED:
            new = gl.where(goes != 0, new, h)
            goes = goes1
            goes1 = gl.load(mask, mask=t + 2 < time, other=0)
            mask += batch
        h = new
        gl.store(hs, h, mask=inside)
        hs += stride
        if SAVE:
            _store(gates, units, inside, r, z, v, n)
            gates += 4 * stride
        u_r, u_z, u_n = v_r, v_z, v_n
        v_r, v_z, v_n = w_r, w_z, w_n


@jit
def _threshold(threshold, unit, inside, none, PHI: tl.constexpr):
    """Load the bias of modReLU; other nonlinearities have none."""
    return gl.load(threshold + unit, mask=inside, other=0.0) if PHI == "modrelu" else none


@jit
def _load_three(p, units, valid):
    return (
        gl.load(p, mask=valid, other=0.0),
        gl.load(p + units, mask=valid, other=0.0),
        gl.load(p + 2 * units, mask=valid, other=0.0),
    )


@jit(do_not_specialize=["time", "batch"])  # one kernel for all lengths and batches
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
    time,
    batch,
    units,
    COLUMNS: tl.constexpr,
    LAYOUT: tl.constexpr,
    PHI: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Compute `D` (time, batch, 4 units), the gradients at v and at the sums of r, z and n, and `dh0`."""
    square = units * units
    W_r = load_matrix(V, units, units, 1, 0, COLUMNS, COLUMNS, LAYOUT)
    W_z = load_matrix(V + square, units, units, 1, 0, COLUMNS, COLUMNS, LAYOUT)
    W_n = load_matrix(V + 2 * square, units, units, 1, 0, COLUMNS, COLUMNS, LAYOUT)
    INNER: tl.constexpr = gl.SliceLayout(0, LAYOUT)
    shared = gl.allocate_shared_memory(gl.float32, [3, COLUMNS], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    unit = gl.arange(0, COLUMNS, layout=gl.SliceLayout(1, LAYOUT))
    inside = unit < units
    none = gl.zeros([COLUMNS], gl.float32, layout=gl.SliceLayout(1, LAYOUT))
    limit = _threshold(threshold, unit, inside, none, PHI)
    row = gl.program_id(0)
    here = row * units + unit
    stride = (batch * units).to(gl.int64)
    last = (time - 1) * stride
    g_h += here + last
    hs += here + last - stride
    gates += row * 4 * units + unit + 4 * last
    D += row * 4 * units + unit + 4 * last
    before0 = gl.load(h0 + here, mask=inside, other=0.0)
    total = gl.load(g_h, mask=inside, other=0.0)
    h = gl.load(hs, mask=inside & (time > 1), other=0.0)
    h1 = gl.load(hs - stride, mask=inside & (time > 2), other=0.0)
    a_r, a_z, a_v, a_n = _load(gates, units, inside)
    b_r, b_z, b_v, b_n = _load(gates - 4 * stride, units, inside & (time > 1))
    g1 = gl.load(g_h - stride, mask=inside & (time > 1), other=0.0)
    g_h -= 2 * stride
    hs -= 2 * stride
    gates -= 8 * stride
    if MASKED:
        mask += row + (time - 1) * batch.to(gl.int64)
        goes = gl.load(mask)
        goes1 = gl.load(mask - batch, mask=time > 1, other=0)
        mask -= 2 * batch
    for t in range(time):
        more = inside & (t + 2 < time)
        e_r, e_z, e_v, e_n = _load(gates, units, more)
        g2 = gl.load(g_h, mask=more, other=0.0)
        h2 = gl.load(hs, mask=inside & (t + 3 < time), other=0.0)
        g_h -= stride
        hs -= stride
        gates -= 4 * stride
        before = gl.where(t + 1 < time, h, before0)
        d_n = _pull_back(total * (1 - a_z), a_n, limit, PHI)
        d_z = total * (before - a_n) * a_z * (1 - a_z)
        d_r = d_n * a_v * a_r * (1 - a_r)
        d_v = d_n * a_r
        held = total * a_z
        if MASKED:
            d_r = gl.where(goes != 0, d_r, 0.0)
            d_z = gl.where(goes != 0, d_z, 0.0)
            d_n = gl.where(goes != 0, d_n, 0.0)
            d_v = gl.where(goes != 0, d_v, 0.0)
            held = gl.where(goes != 0, held, total)
            goes = goes1
            goes1 = gl.load(mask, mask=t + 2 < time, other=0)
            mask -= batch
        _store(D, units, inside, d_v, d_r, d_z, d_n)
        D -= 4 * stride
        shared.index(0).store(d_r)
        shared.index(1).store(d_z)
        shared.index(2).store(d_v)
        sums = W_r * shared.index(0).load(INNER)[None, :]
        sums += W_z * shared.index(1).load(INNER)[None, :]
        sums += W_n * shared.index(2).load(INNER)[None, :]
        total = gl.sum(sums, 1) + held + g1  # after the first time, g1 is 0 and this is the gradient of h0
        h = h1
        h1 = h2
        g1 = g2
        a_r, a_z, a_v, a_n = b_r, b_z, b_v, b_n
        b_r, b_z, b_v, b_n = e_r, e_z, e_v, e_n
    gl.store(dh0 + here, total, mask=inside)
