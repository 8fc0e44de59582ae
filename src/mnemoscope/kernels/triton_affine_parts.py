"""Shared parts of the affine kernels: tiles of sequences, products at a given precision, and sums of log decays.

A program works on one chunk of one head. Sequences are (steps, heads, features); a sequence of tokens has one row for
every `micro` steps, that of the last of them. Log decays are summed as in `affine_decays`, as products with matrices of
0 and 1, from a floor that stands for -inf.
"""

from __future__ import annotations

import triton
import triton.language as tl

from mnemoscope.kernels.triton_parts import parts


@triton.jit
def load_rows(x, start, head, steps, heads, micro, first, WIDTH: tl.constexpr, C: tl.constexpr, COLUMNS: tl.constexpr):
    """Return columns from `first` on of a chunk, zeros outside the sequence and at steps that are not a token's last."""
    rows = start + tl.arange(0, C)
    columns = first + tl.arange(0, COLUMNS)
    token = (rows + 1) // micro - 1
    inside = ((rows < steps) & ((rows + 1) % micro == 0))[:, None] & (columns < WIDTH)[None, :]
    at = (token.to(tl.int64)[:, None] * heads + head) * WIDTH + columns[None, :]
    return tl.load(x + at, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def store_rows(
    x, tile, start, head, steps, heads, micro, first, WIDTH: tl.constexpr, C: tl.constexpr, COLUMNS: tl.constexpr
):
    """Store what `load_rows` would load."""
    rows = start + tl.arange(0, C)
    columns = first + tl.arange(0, COLUMNS)
    token = (rows + 1) // micro - 1
    inside = ((rows < steps) & ((rows + 1) % micro == 0))[:, None] & (columns < WIDTH)[None, :]
    at = (token.to(tl.int64)[:, None] * heads + head) * WIDTH + columns[None, :]
    tl.store(x + at, tile.to(x.dtype.element_ty), mask=inside)


@triton.jit
def load_log_decays(g, start, head, steps, heads, WIDTH: tl.constexpr, C: tl.constexpr, COLUMNS: tl.constexpr):
    """Return g of a chunk, (steps, keys), or (steps, 1) if one rate decays all keys."""
    if WIDTH == 1:
        rows = start + tl.arange(0, C)
        at = rows.to(tl.int64) * heads + head
        tile = tl.load(g + at, mask=rows < steps, other=0.0).to(tl.float32)[:, None]
    else:
        tile = load_rows(g, start, head, steps, heads, 1, 0, WIDTH, C, COLUMNS)
    return tl.where(tile < -1e4, -1e4, tile)


@triton.jit
def load_tile(x, at, first, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr, rows):
    """Return columns from `first` on of a matrix of `rows` x `width` that begins at row `at` of x, at least in float32."""
    row = tl.arange(0, ROWS)
    columns = first + tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (columns < width)[None, :]
    tile = tl.load(x + (at + row)[:, None] * width + columns[None, :], mask=inside, other=0.0)
    if x.dtype.element_ty != tl.float64:
        tile = tile.to(tl.float32)
    return tile


@triton.jit
def store_tile(x, tile, at, first, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr, rows):
    """Store what `load_tile` would load."""
    row = tl.arange(0, ROWS)
    columns = first + tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (columns < width)[None, :]
    tl.store(x + (at + row)[:, None] * width + columns[None, :], tile.to(x.dtype.element_ty), mask=inside)


@triton.jit
def product(x, y, PRECISION: tl.constexpr):
    """Return `x y`, summed in float32, or in float64 if that is the precision."""
    if PRECISION == "fp64":
        return tl.dot(x.to(tl.float64), y.to(tl.float64))
    elif PRECISION == "bf16":
        return tl.dot(x.to(tl.bfloat16), y.to(tl.bfloat16))
    else:
        return tl.dot(x.to(tl.float32), y.to(tl.float32), input_precision=PRECISION)


@triton.jit
def selected_sums(chosen, x, PRECISION: tl.constexpr):
    """Return the sums over the chosen rows of x, (sums, columns), at the precision of float32."""
    if PRECISION == "ieee":
        return tl.dot(chosen.to(tl.float32), x, input_precision="ieee")
    else:
        x1, x2, x3 = parts(x)
        ones = chosen.to(tl.bfloat16)
        total = tl.dot(ones, x3)
        total = tl.dot(ones, x2, total)
        return tl.dot(ones, x1, total)


@triton.jit
def sums_of_columns(x, chosen, PRECISION: tl.constexpr):
    """Return the sums over the chosen columns of x, (rows, sums), at the precision of float32."""
    if PRECISION == "ieee":
        return tl.dot(x, chosen.to(tl.float32), input_precision="ieee")
    else:
        x1, x2, x3 = parts(x)
        ones = chosen.to(tl.bfloat16)
        total = tl.dot(x3, ones)
        total = tl.dot(x2, ones, total)
        return tl.dot(x1, ones, total)


@triton.jit
def sums_over_steps(chosen, g, WIDTH: tl.constexpr, PRECISION: tl.constexpr):
    """Return the sums of g over the chosen steps, (sums, keys or 1)."""
    if WIDTH == 1:
        return tl.sum(tl.where(chosen, tl.trans(g), 0.0), 1)[:, None]
    else:
        return selected_sums(chosen, g, PRECISION)


@triton.jit
def pair_exponents(g, i, j, before, C: tl.constexpr, PRECISION: tl.constexpr):
    """Return the sums of g (steps, 1) after step j up to step i, or up to the step before it, (reads, writes)."""
    later = tl.where(i > j, tl.broadcast_to(g, C, C), 0.0)  # of a step i after a write j
    return selected_sums(j <= i - before, later, PRECISION)
