"""Kernels in which one program takes a tile of the batch through all times and holds V on chip.

In both loops the last step is outside the loop: with a use outside, the compiler keeps V in registers; otherwise it
would read V from shared memory at every step.

`sharing` sequences in a row share a matrix: all of the batch, or those of one of several stacked networks.
"""

from __future__ import annotations

import triton
import triton.language as tl

from mnemoscope.kernels.triton_parts import bias_row, nonlinear, prepared, pull_back, tile, times


@triton.jit
def _forward_step(h, u, W1, W2, W3, b, mask, rows, batch, PHI: tl.constexpr, MASKED: tl.constexpr, EXACT: tl.constexpr):
    new = nonlinear(times(h, W1, W2, W3, EXACT) + u, b, PHI)
    if MASKED:
        goes = tl.load(mask + rows, mask=rows < batch, other=0)
        new = tl.where((goes != 0)[:, None], new, h)
    return new


@triton.jit(do_not_specialize=["time", "batch", "sharing"])  # one kernel for all lengths and batches
def block_forward(
    us,
    h0,
    V,
    bias,
    mask,
    hs,
    time,
    batch,
    units,
    sharing,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PHI: tl.constexpr,
    MASKED: tl.constexpr,
    EXACT: tl.constexpr,
):
    rows, columns, here, inside = tile(tl.program_id(0) * ROWS, 0, batch, units, ROWS, COLUMNS)
    inner, known = columns[:, None], (columns < units)[:, None] & (columns < units)[None, :]
    V += (tl.program_id(0) * ROWS // sharing) * units * units  # the matrix of the sequences of this tile
    W = tl.load(V + columns[None, :] * units + inner, mask=known, other=0.0)  # the transpose of V: states are rows
    W1, W2, W3 = prepared(W, EXACT)
    b = bias_row(bias, columns, units, PHI)
    stride = (batch * units).to(tl.int64)
    h = tl.load(h0 + here, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(us + here, mask=inside, other=0.0).to(tl.float32)
    for _ in range(time - 1):
        us += stride
        later = tl.load(us + here, mask=inside, other=0.0).to(tl.float32)  # prefetched during the step
        h = _forward_step(h, u, W1, W2, W3, b, mask, rows, batch, PHI, MASKED, EXACT)
        h = h.to(hs.dtype.element_ty).to(tl.float32)  # round as the stored state
        tl.store(hs + here, h, mask=inside)
        hs += stride
        mask += batch
        u = later
    h = _forward_step(h, u, W1, W2, W3, b, mask, rows, batch, PHI, MASKED, EXACT)
    tl.store(hs + here, h, mask=inside)


@triton.jit
def _adjoint_step(
    total, h, W1, W2, W3, b, mask, rows, batch, PHI: tl.constexpr, MASKED: tl.constexpr, EXACT: tl.constexpr
):
    """Return `D_t` and the gradient of the previous state."""
    d = pull_back(total, h, b, PHI)
    if MASKED:
        goes = (tl.load(mask + rows, mask=rows < batch, other=0) != 0)[:, None]
        d = tl.where(goes, d, 0.0)
        before = tl.where(goes, 0.0, total) + times(d, W1, W2, W3, EXACT)
    else:
        before = times(d, W1, W2, W3, EXACT)
    return d, before


@triton.jit(do_not_specialize=["time", "batch", "sharing"])  # one kernel for all lengths and batches
def block_adjoint(
    g,
    hs,
    V,
    bias,
    mask,
    D,
    dh0,
    time,
    batch,
    units,
    sharing,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PHI: tl.constexpr,
    MASKED: tl.constexpr,
    EXACT: tl.constexpr,
):
    rows, columns, here, inside = tile(tl.program_id(0) * ROWS, 0, batch, units, ROWS, COLUMNS)
    inner, known = columns[:, None], (columns < units)[:, None] & (columns < units)[None, :]
    V += (tl.program_id(0) * ROWS // sharing) * units * units  # the matrix of the sequences of this tile
    W = tl.load(V + inner * units + columns[None, :], mask=known, other=0.0)
    W1, W2, W3 = prepared(W, EXACT)
    b = bias_row(bias, columns, units, PHI)
    stride = (batch * units).to(tl.int64)
    g += (time - 1) * stride
    hs += (time - 1) * stride
    D += (time - 1) * stride
    mask += (time - 1) * batch.to(tl.int64)
    from_later = tl.zeros([ROWS, COLUMNS], tl.float32)
    g_t = tl.load(g + here, mask=inside, other=0.0).to(tl.float32)
    h_t = tl.load(hs + here, mask=inside, other=0.0).to(tl.float32)
    for _ in range(time - 1):
        g -= stride
        hs -= stride
        g_before = tl.load(g + here, mask=inside, other=0.0).to(tl.float32)
        h_before = tl.load(hs + here, mask=inside, other=0.0).to(tl.float32)
        d, from_later = _adjoint_step(g_t + from_later, h_t, W1, W2, W3, b, mask, rows, batch, PHI, MASKED, EXACT)
        tl.store(D + here, d, mask=inside)
        D -= stride
        mask -= batch
        g_t = g_before
        h_t = h_before
    d, from_later = _adjoint_step(g_t + from_later, h_t, W1, W2, W3, b, mask, rows, batch, PHI, MASKED, EXACT)
    tl.store(D + here, d, mask=inside)
    tl.store(dh0 + here, from_later, mask=inside)
