"""Shared parts of the elementwise kernels: nonlinearity, its gradient, and products at float32 precision.

float32 keeps its precision on matrix units, which multiply shorter numbers: every factor is the sum of three bfloat16
numbers, and six of the nine products are computed; the others are negligible. (Two tf32 numbers and three products take
as much time and more registers, and the units, which truncate their sums, err twice as often.) Plain tf32 would have an
error of 2e-2 after 50 orthogonal steps. An infinite number has no parts: it leads to NaN, where a loop may hold
infinities for some more steps.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile(row, column, batch, units, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return the rows and columns of a tile of states that begins there, their offsets, and which are inside."""
    rows = row + tl.arange(0, ROWS)
    columns = column + tl.arange(0, COLUMNS)
    inside = (rows < batch)[:, None] & (columns < units)[None, :]
    return rows, columns, rows[:, None] * units + columns[None, :], inside


@triton.jit
def nonlinear(z, bias, PHI: tl.constexpr):
    """Return `phi(z)` with torch's conventions: NaN stays NaN, and the sign of 0 is 0."""
    if PHI == "tanh":
        decay = tl.exp(-2 * tl.abs(z))
        size = (1 - decay) / (1 + decay)
        # tanh z = z - z^3 / 3 + ... where 1 - decay would cancel
        square = z * z
        small = z * (1 - square * (1.0 / 3 - square * (2.0 / 15)))
        return tl.where(tl.abs(z) < 0.05, small, tl.where(z < 0, -size, size))
    elif PHI == "logistic":
        return 1 / (1 + tl.exp(-z))
    elif PHI == "relu":
        return tl.where(z <= 0, 0.0, z)
    elif PHI == "modrelu":
        size = tl.abs(z) + bias
        size = tl.where(size <= 0, 0.0, size)
        return tl.where(z < 0, -size, tl.where(z == 0, 0.0, size))
    elif PHI == "modrelu of pairs":
        before = _pair_length(z)
        size = before + bias
        size = tl.where(size <= 0, 0.0, size)
        return z * (size / tl.where(before == 0, 1.0, before))
    else:
        return z


@triton.jit
def pull_back(g, h, bias, PHI: tl.constexpr):
    """Return the gradient of `z` from that of `h = phi(z)`. A unit that is off blocks even an infinite gradient."""
    if PHI == "tanh":
        return g * (1 - h * h)
    elif PHI == "logistic":
        return g * (h * (1 - h))
    elif PHI == "relu":
        return tl.where(h <= 0, 0.0, g)
    elif PHI == "modrelu":
        return tl.where(h == 0, 0.0, tl.where(h == h, g, 0 * g))
    elif PHI == "modrelu of pairs":
        size = _pair_length(h)
        off = size == 0
        before = size - bias
        before = tl.where(before < 1.1920929e-07 * size, 1.1920929e-07 * size, before)
        stretch = size / tl.where(off, 1.0, before)
        d = h / tl.where(off, 1.0, size)
        return tl.where(off, 0.0, stretch * g + (1 - stretch) * _pair_sum(d * g) * d)
    else:
        return g


@triton.jit
def _pair_sum(x):
    """Replace each number by the sum over its pair."""
    re, im = tl.split(tl.reshape(x, [x.shape[0], x.shape[1] // 2, 2]))
    both = re + im
    return tl.reshape(tl.join(both, both), [x.shape[0], x.shape[1]])


@triton.jit
def _pair_length(x):
    """Return |re + i im| of each pair, without overflow or underflow of the squares."""
    re, im = tl.split(tl.reshape(tl.abs(x), [x.shape[0], x.shape[1] // 2, 2]))
    larger = tl.where(re > im, re, im)
    unit = tl.where((larger == 0) | (larger == float("inf")), 1.0, larger)
    length = unit * tl.sqrt((re / unit) * (re / unit) + (im / unit) * (im / unit))
    length = tl.where(re == re, length, re)  # NaN is never the larger
    return tl.reshape(tl.join(length, length), [x.shape[0], x.shape[1]])


@triton.jit
def parts(x):
    """Split a float32 number into a sum of three bfloat16 numbers."""
    first = x.to(tl.bfloat16)
    near = first.to(tl.float32)
    rest = tl.where(tl.abs(near) == float("inf"), 0.0, x - near)  # infinity has no remainder
    second = rest.to(tl.bfloat16)
    third = (rest - second.to(tl.float32)).to(tl.bfloat16)
    return first, second, third


@triton.jit
def prepared(W, EXACT: tl.constexpr):
    """Return the parts of W that `times` needs, computed before the loop."""
    if EXACT:
        W1, W2, W3 = parts(W)
    else:
        W1, W2, W3 = W, W, W
    return W1, W2, W3


@triton.jit
def times(x, W1, W2, W3, EXACT: tl.constexpr):
    """Return `x W`, summed in float32."""
    if EXACT:
        x1, x2, x3 = parts(x)
        product = tl.dot(x3, W1)  # small terms first: the matrix units truncate their sums
        product = tl.dot(x1, W3, product)
        product = tl.dot(x2, W2, product)
        product = tl.dot(x2, W1, product)
        product = tl.dot(x1, W2, product)
        return tl.dot(x1, W1, product)
    else:
        return tl.dot(x.to(W1.dtype), W1, input_precision="tf32")


@triton.jit
def bias_row(bias, columns, units, PHI: tl.constexpr):
    """Return a row of biases; pairs share one."""
    if PHI == "modrelu":
        row = tl.load(bias + columns, mask=columns < units, other=0.0).to(tl.float32)
    elif PHI == "modrelu of pairs":
        row = tl.load(bias + columns // 2, mask=columns < units, other=0.0).to(tl.float32)
    else:
        row = tl.zeros([columns.shape[0]], tl.float32)
    return row[None, :]
