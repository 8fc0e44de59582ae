"""Kernels in which one program takes one sequence through all times, with products of float32 numbers.

Matrix units take 16 sequences at a time and shorter numbers; with few sequences a matrix in registers and ordinary
multiplications are faster, and exact. Four threads share the sum of a unit: a sum takes two exchanges between threads,
and the new state reaches all threads through shared memory.

The registers of a multiprocessor hold the matrix of up to 128 units. Of larger ones, `KEPT` columns are in registers
and the others in shared memory, in blocks of `BLOCK` columns, which the threads read without conflicts.

Inputs are read three steps ahead, as a read takes longer than a step.
"""

from __future__ import annotations

import triton.language as tl

from mnemoscope.kernels import triton_parts
from mnemoscope.kernels.triton_layouts import BlockedLayout, gl, jit

LANES = 4
"""Threads that share the sum of a unit."""
BLOCK = 16
"""Columns of a block in shared memory."""

_nonlinear = jit(triton_parts.nonlinear.fn)
_pull_back = jit(triton_parts.pull_back.fn)


def vector_layout(columns: int, warps: int) -> BlockedLayout:
    """Return the layout of a matrix of `columns` rows over the threads: each warp holds whole rows."""
    rows = 32 // LANES
    return BlockedLayout([max(1, columns // (rows * warps)), BLOCK // LANES], [rows, LANES], [warps, 1], [1, 0])


@jit
def load_matrix(V, units, across, down, first, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, LAYOUT: tl.constexpr):
    """Load `WIDTH` columns of a matrix, from column `first`; `across` and `down` are its strides."""
    row = gl.arange(0, COLUMNS, layout=gl.SliceLayout(1, LAYOUT))[:, None]
    column = first + gl.arange(0, WIDTH, layout=gl.SliceLayout(0, LAYOUT))[None, :]
    known = (row < units) & (column < units)
    return gl.load(V + row * down + column * across, mask=known, other=0.0).to(gl.float32)


@jit
def _blocks(
    V, units, across, down, COLUMNS: tl.constexpr, KEPT: tl.constexpr, BLOCK: tl.constexpr, LAYOUT: tl.constexpr
):
    """Copy the columns that are not kept in registers into shared memory."""
    FLAT: tl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    COUNT: tl.constexpr = (COLUMNS - KEPT) // BLOCK
    blocks = gl.allocate_shared_memory(gl.float32, [COUNT, COLUMNS, BLOCK], FLAT)
    for k in gl.static_range(COUNT):
        blocks.index(k).store(load_matrix(V, units, across, down, KEPT + k * BLOCK, COLUMNS, BLOCK, LAYOUT))
    return blocks


@jit
def _times(W, blocks, vector, x, COLUMNS: tl.constexpr, KEPT: tl.constexpr, BLOCK: tl.constexpr, LAYOUT: tl.constexpr):
    """Return the product of the matrix and a vector; both have one number for each row of `LAYOUT`."""
    INNER: tl.constexpr = gl.SliceLayout(0, LAYOUT)
    if COLUMNS == KEPT:
        return gl.sum(W * gl.convert_layout(x, INNER)[None, :], 1)
    else:
        vector.store(x)
        partial = gl.zeros([COLUMNS, BLOCK], gl.float32, layout=LAYOUT)
        for k in gl.static_range((COLUMNS - KEPT) // BLOCK):
            partial += blocks.index(k).load(LAYOUT) * vector.slice(KEPT + k * BLOCK, BLOCK).load(INNER)[None, :]
        kept = gl.sum(W * vector.slice(0, KEPT).load(INNER)[None, :], 1)
        return kept + gl.sum(partial, 1)


@jit(do_not_specialize=["time", "batch"])  # one kernel for all lengths and batches
def vector_forward(
    us,
    h0,
    V,
    bias,
    mask,
    hs,
    time,
    batch,
    units,
    COLUMNS: tl.constexpr,
    KEPT: tl.constexpr,
    BLOCK: tl.constexpr,
    LAYOUT: tl.constexpr,
    PHI: tl.constexpr,
    MASKED: tl.constexpr,
):
    W = load_matrix(V, units, 1, units, 0, COLUMNS, KEPT, LAYOUT)
    if KEPT < COLUMNS:
        blocks = _blocks(V, units, 1, units, COLUMNS, KEPT, BLOCK, LAYOUT)
        vector = gl.allocate_shared_memory(gl.float32, [COLUMNS], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    else:
        blocks, vector = W, W  # not used
    unit = gl.arange(0, COLUMNS, layout=gl.SliceLayout(1, LAYOUT))
    inside = unit < units
    if PHI == "modrelu":
        b = gl.load(bias + unit, mask=inside, other=0.0).to(gl.float32)
    else:
        b = gl.zeros([COLUMNS], gl.float32, layout=gl.SliceLayout(1, LAYOUT))
    row = gl.program_id(0)
    here = row * units + unit
    stride = (batch * units).to(gl.int64)
    h = gl.load(h0 + here, mask=inside, other=0.0).to(gl.float32)
    us += here
    hs += here
    u = gl.load(us, mask=inside, other=0.0)
    u1 = gl.load(us + stride, mask=inside & (time > 1), other=0.0)
    u2 = gl.load(us + 2 * stride, mask=inside & (time > 2), other=0.0)
    us += 3 * stride
    if MASKED:
        mask += row
        goes = gl.load(mask)
        goes1 = gl.load(mask + batch, mask=time > 1, other=0)
        goes2 = gl.load(mask + 2 * batch, mask=time > 2, other=0)
        mask += 3 * batch
    for t in range(time):
        u3 = gl.load(us, mask=inside & (t + 3 < time), other=0.0)
        us += stride
        product = _times(W, blocks, vector, h, COLUMNS, KEPT, BLOCK, LAYOUT)
        new = _nonlinear(product + u.to(gl.float32), b, PHI)
        if MASKED:
            new = gl.where(goes != 0, new, h)
            goes = goes1
            goes1 = goes2
            goes2 = gl.load(mask, mask=t + 3 < time, other=0)
            mask += batch
        h = new.to(hs.dtype.element_ty).to(gl.float32)  # round as the stored state
        gl.store(hs, h, mask=inside)
        hs += stride
        u = u1
        u1 = u2
        u2 = u3


@jit(do_not_specialize=["time", "batch"])  # one kernel for all lengths and batches
def vector_adjoint(
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
    COLUMNS: tl.constexpr,
    KEPT: tl.constexpr,
    BLOCK: tl.constexpr,
    LAYOUT: tl.constexpr,
    PHI: tl.constexpr,
    MASKED: tl.constexpr,
):
    W = load_matrix(V, units, units, 1, 0, COLUMNS, KEPT, LAYOUT)
    if KEPT < COLUMNS:
        blocks = _blocks(V, units, units, 1, COLUMNS, KEPT, BLOCK, LAYOUT)
        vector = gl.allocate_shared_memory(gl.float32, [COLUMNS], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    else:
        blocks, vector = W, W  # not used
    unit = gl.arange(0, COLUMNS, layout=gl.SliceLayout(1, LAYOUT))
    inside = unit < units
    none = gl.zeros([COLUMNS], gl.float32, layout=gl.SliceLayout(1, LAYOUT))  # only pairs need the bias here
    row = gl.program_id(0)
    here = row * units + unit
    stride = (batch * units).to(gl.int64)
    end = (time - 1) * stride
    g += here + end
    hs += here + end
    D += here + end
    total = gl.load(g, mask=inside, other=0.0).to(gl.float32)
    h = gl.load(hs, mask=inside, other=0.0)
    g1 = gl.load(g - stride, mask=inside & (time > 1), other=0.0)
    h1 = gl.load(hs - stride, mask=inside & (time > 1), other=0.0)
    g2 = gl.load(g - 2 * stride, mask=inside & (time > 2), other=0.0)
    h2 = gl.load(hs - 2 * stride, mask=inside & (time > 2), other=0.0)
    g -= 3 * stride
    hs -= 3 * stride
    if MASKED:
        mask += row + (time - 1) * batch.to(gl.int64)
        goes = gl.load(mask)
        goes1 = gl.load(mask - batch, mask=time > 1, other=0)
        goes2 = gl.load(mask - 2 * batch, mask=time > 2, other=0)
        mask -= 3 * batch
    for t in range(time):
        g3 = gl.load(g, mask=inside & (t + 3 < time), other=0.0)
        h3 = gl.load(hs, mask=inside & (t + 3 < time), other=0.0)
        g -= stride
        hs -= stride
        d = _pull_back(total, h.to(gl.float32), none, PHI)
        if MASKED:
            held = gl.where(goes != 0, 0.0, total)
            d = gl.where(goes != 0, d, 0.0)
            goes = goes1
            goes1 = goes2
            goes2 = gl.load(mask, mask=t + 3 < time, other=0)
            mask -= batch
        gl.store(D, d, mask=inside)
        D -= stride
        before = _times(W, blocks, vector, d, COLUMNS, KEPT, BLOCK, LAYOUT)
        if MASKED:
            before += held
        total = before + g1.to(gl.float32)  # after the first time, g1 is 0 and this is the gradient of h0
        h = h1
        g1 = g2
        h1 = h2
        g2 = g3
        h2 = h3
    gl.store(dh0 + here, total, mask=inside)
