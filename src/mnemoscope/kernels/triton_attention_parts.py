"""Shared parts of the attention kernels: vectors, products with a matrix, scores, and the step of the cell.

A program holds one sequence. Vectors have `columns`, at least the `size` of the state. Matrices are read from the cache
at every step.
"""

from __future__ import annotations

import triton
import triton.language as tl

from mnemoscope.kernels.attention_scans import Weights
from mnemoscope.kernels.triton_parts import nonlinear, pull_back


def transposed(weights: Weights) -> Weights:
    """Return the weights with each matrix transposed, for `transposed_times`; the gates are separate matrices."""
    size = weights.key.shape[0]
    recurrent = weights.recurrent.unflatten(0, (-1, size)).mT
    return weights._replace(recurrent=recurrent, query=weights.query.mT, key=weights.key.mT)


@triton.jit
def vector(at, columns, size):
    return tl.load(at + columns, mask=columns < size, other=0.0)


@triton.jit
def transposed_times(W, x, columns, size):
    """Return `W^T x`. Unlike `W x`, it needs no exchange of numbers within warps."""
    inside = (columns < size)[:, None] & (columns < size)[None, :]
    matrix = tl.load(W + columns[:, None] * size + columns[None, :], mask=inside, other=0.0)
    return tl.sum(matrix * x[:, None], 0)


@triton.jit
def compared(query, keys, direction, shrink, ADDITIVE: tl.constexpr):
    """Return the scores, and for the additive alignment the tanh in them.

    The absolute error of this tanh is that of rounding, which suffices for a sum of many.
    """
    if ADDITIVE:
        x = query[None, :] + keys
        bent = 1 - 2 / (1 + tl.exp(2 * tl.where(x > 40, 40.0, x)))  # exp(2 x) overflows if x is above 44
        return tl.sum(direction[None, :] * bent, 1), bent
    else:
        return tl.sum((query * shrink)[None, :] * keys, 1), keys


@triton.jit
def pull_scores(de, bent, query, direction, shrink, ADDITIVE: tl.constexpr):
    """Return the gradients of the keys, of the query and of v_a from that of the scores; `bent` is as of `compared`."""
    if ADDITIVE:
        into_keys = de[:, None] * direction[None, :] * (1 - bent * bent)
        return into_keys, tl.sum(into_keys, 0), tl.sum(de[:, None] * bent, 0)
    else:
        de = de * shrink
        return de[:, None] * query[None, :], tl.sum(de[:, None] * bent, 0), tl.zeros_like(query)


@triton.jit
def _gate(u, recurrent, s, columns, size, NUMBER: tl.constexpr):
    product = transposed_times(recurrent + NUMBER * size * size, s, columns, size)
    return vector(u + NUMBER * size, columns, size) + product


@triton.jit
def cell_step(us, recurrent, s, c, own, gates, cs, here, columns, size, CELL: tl.constexpr):
    """Return h and c; `recurrent` is as of `transposed`, and `here` the offset of the step in a list of states."""
    if CELL == "lstm":
        u = us + here * 4
        gate = gates + here * 4
        i = nonlinear(_gate(u, recurrent, s, columns, size, 0), 0.0, "logistic")
        f = nonlinear(_gate(u, recurrent, s, columns, size, 1), 0.0, "logistic")
        g = nonlinear(_gate(u, recurrent, s, columns, size, 2), 0.0, "tanh")
        o = nonlinear(_gate(u, recurrent, s, columns, size, 3), 0.0, "logistic")
        tl.store(gate + columns, i, mask=columns < size)
        tl.store(gate + size + columns, f, mask=columns < size)
        tl.store(gate + 2 * size + columns, g, mask=columns < size)
        tl.store(gate + 3 * size + columns, o, mask=columns < size)
        c = f * c + i * g
        tl.store(cs + here + columns, c, mask=columns < size)
        h = o * nonlinear(c, 0.0, "tanh")
    else:
        h = nonlinear(_gate(us + here, recurrent, s, columns, size, 0), own, CELL)
    return tl.where(columns < size, h, 0.0), c  # a padded logistic unit would be 1/2


@triton.jit
def pull_cell(dh, dc, h, own, recurrent, gates, cs, c0, drive, here, before, columns, size, CELL: tl.constexpr):
    """Return the gradients of s and c before the step; write those of the drive.

    The memory of an LSTM before the step is at `before` in `cs`, or at the start `c0` if `before` is negative.
    """
    if CELL == "lstm":
        into = drive + here * 4
        gate = gates + here * 4
        i = vector(gate, columns, size)
        f = vector(gate + size, columns, size)
        n = vector(gate + 2 * size, columns, size)
        o = vector(gate + 3 * size, columns, size)
        seen = nonlinear(vector(cs + here, columns, size), 0.0, "tanh")
        earlier = vector(c0, columns, size)
        if before >= 0:
            earlier = vector(cs + before, columns, size)
        dc += dh * o * (1 - seen * seen)
        dz = dc * n * i * (1 - i)
        tl.store(into + columns, dz, mask=columns < size)
        ds = transposed_times(recurrent, dz, columns, size)
        dz = dc * earlier * f * (1 - f)
        tl.store(into + size + columns, dz, mask=columns < size)
        ds += transposed_times(recurrent + size * size, dz, columns, size)
        dz = dc * i * (1 - n * n)
        tl.store(into + 2 * size + columns, dz, mask=columns < size)
        ds += transposed_times(recurrent + 2 * size * size, dz, columns, size)
        dz = dh * seen * o * (1 - o)
        tl.store(into + 3 * size + columns, dz, mask=columns < size)
        ds += transposed_times(recurrent + 3 * size * size, dz, columns, size)
        dc = dc * f
    else:
        dz = pull_back(dh, h, own, CELL)
        tl.store(drive + here + columns, dz, mask=columns < size)
        ds = transposed_times(recurrent, dz, columns, size)
    return ds, dc
