"""Diagonal linear recurrences `h_t = a_t h_{t-1} + u_t` on a GPU, forward and backward.

A program takes some units of some sequences through a chunk of the steps. If there are too few units to fill the GPU,
the steps are divided into several chunks: `_ends` runs each from zero, for its last state and the product of its
factors, and `_states` begins where the chunks before it end. Backward, the same kernels run from the last step to the
first. Numbers are real, or complex as pairs, and computed in float32.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from mnemoscope.kernels.devices import on_device

STEPS, LANES = 16, 128
"""Steps and units that a program loads at a time. One warp then has all steps of a unit in one thread."""
PROGRAMS = 2048
"""Number of programs that fill a large GPU."""


def diagonal(a: Tensor, us: Tensor, h0: Tensor) -> Tensor:
    """Return the states (time, batch, units); a is (units) or (time, batch, units)."""
    hs = torch.empty_like(us, memory_format=torch.contiguous_format)
    _launch(a, us, h0, hs)
    return hs


def diagonal_backward(a: Tensor, h0: Tensor, hs: Tensor, into: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of a, or of it in every chunk of every sequence if constant, and of us."""
    into_us = torch.empty_like(hs)
    length = _length(hs)
    shape = (triton.cdiv(len(hs), length), *h0.shape) if a.dim() == 1 else hs.shape
    into_a = torch.empty(
        shape, dtype=torch.promote_types(hs.dtype, torch.float32) if a.dim() == 1 else hs.dtype, device=hs.device
    )
    _launch(a, into, h0, into_us, hs, into_a)
    return into_a, into_us


def _length(us: Tensor) -> int:
    """Return the steps of a chunk, a multiple of `STEPS`."""
    time, lanes = len(us), us[0].numel()
    most = max(1, int((time / STEPS) ** 0.5))  # chunks; every program also reads the ends of all chunks before its own
    chunks = min(most, triton.cdiv(PROGRAMS, triton.cdiv(lanes, LANES)))
    return STEPS * triton.cdiv(time, STEPS * chunks)


def _launch(
    a: Tensor, us: Tensor, h0: Tensor, hs: Tensor, states: Tensor | None = None, into_a: Tensor | None = None
) -> None:
    """Fill `hs`; with `states` run backwards, and fill `into_a` with the gradient of a, summed over a chunk if constant."""
    if not hs.numel():
        return
    (time, batch, units), length = us.shape, _length(us)
    lanes, chunks = batch * units, triton.cdiv(time, length)
    ends = torch.empty(2, chunks, lanes, 2 if us.is_complex() else 1, dtype=torch.float32, device=us.device)
    tensors = (a, us, h0, states if states is not None else hs, hs, into_a if into_a is not None else hs)
    a, us, h0, states, hs, into_a = (_parts(x) for x in tensors)
    sizes = (time, lanes, units, length)
    constants: dict[str, Any] = {"CONSTANT": len(a.shape) < len(us.shape), "COMPLEX": tensors[1].is_complex()}
    constants |= {"REVERSE": tensors[3] is not tensors[4], "STEPS": STEPS, "LANES": LANES, "num_warps": 1}
    grid = (triton.cdiv(lanes, LANES), chunks)
    with on_device(us):
        if chunks > 1:
            _ends[grid[0], chunks - 1](a, us, *ends, *sizes, **constants)
        _states[grid](a, us, h0, *ends, states, hs, into_a, *sizes, **constants)


def _parts(x: Tensor) -> Tensor:
    return (torch.view_as_real(x.resolve_conj()) if x.is_complex() else x).contiguous()


@triton.jit
def _join(a1, u1, a2, u2):
    return a1 * a2, a2 * u1 + u2


@triton.jit
def _join_complex(a1, b1, u1, v1, a2, b2, u2, v2):
    return a1 * a2 - b1 * b2, a1 * b2 + b1 * a2, a2 * u1 - b2 * v1 + u2, a2 * v1 + b2 * u1 + v2


@triton.jit
def _load(x, at, inside, COMPLEX: tl.constexpr):
    """Return the real and imaginary parts; the second is the first again if numbers are real."""
    if COMPLEX:
        return tl.load(x + 2 * at, mask=inside, other=0.0), tl.load(x + 2 * at + 1, mask=inside, other=0.0)
    else:
        re = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        return re, re


@triton.jit
def _store(x, at, re, im, inside, COMPLEX: tl.constexpr):
    if COMPLEX:
        tl.store(x + 2 * at, re, mask=inside)
        tl.store(x + 2 * at + 1, im, mask=inside)
    else:
        tl.store(x + at, re.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _load_tile(x, row, lane, known, lanes, COMPLEX: tl.constexpr):
    """Return the same of rows; of pairs, both parts are loaded at once."""
    if COMPLEX:
        column = 2 * tl.min(lane, 0) + tl.arange(0, 2 * lane.shape[0])
        at = 2 * row.to(tl.int64)[:, None] * lanes + column[None, :]
        both = tl.load(x + at, mask=known[:, None] & (column < 2 * lanes)[None, :], other=0.0)
        re, im = tl.split(tl.reshape(both, [row.shape[0], lane.shape[0], 2]))
        return re, im
    else:
        inside = known[:, None] & (lane < lanes)[None, :]
        re = tl.load(x + row.to(tl.int64)[:, None] * lanes + lane[None, :], mask=inside, other=0.0).to(tl.float32)
        return re, re


@triton.jit
def _store_tile(x, row, lane, re, im, known, lanes, COMPLEX: tl.constexpr):
    if COMPLEX:
        column = 2 * tl.min(lane, 0) + tl.arange(0, 2 * lane.shape[0])
        at = 2 * row.to(tl.int64)[:, None] * lanes + column[None, :]
        both = tl.reshape(tl.join(re, im), [row.shape[0], 2 * lane.shape[0]])
        tl.store(x + at, both, mask=known[:, None] & (column < 2 * lanes)[None, :])
    else:
        inside = known[:, None] & (lane < lanes)[None, :]
        at = row.to(tl.int64)[:, None] * lanes + lane[None, :]
        tl.store(x + at, re.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _tile(
    a,
    us,
    start,
    lane,
    time,
    lanes,
    units,
    CONSTANT: tl.constexpr,
    COMPLEX: tl.constexpr,
    REVERSE: tl.constexpr,
    STEPS: tl.constexpr,
):
    """Return the steps of a tile, and its scan from zero: products of factors and states, real and imaginary."""
    row = start + tl.arange(0, STEPS)
    step = time - 1 - row if REVERSE else row
    u, v = _load_tile(us, step, lane, row < time, lanes, COMPLEX)
    known = row < time
    if REVERSE:  # the gradient of a state is multiplied by the next factor
        known = known & (row > 0)
    if CONSTANT:
        x, y = _load(a, lane % units, lane < lanes, COMPLEX)
        x = tl.where(known[:, None], x[None, :], 0.0)
        y = tl.where(known[:, None], y[None, :], 0.0)
    else:
        x, y = _load_tile(a, step + 1 if REVERSE else step, lane, known, lanes, COMPLEX)
    if COMPLEX:
        if REVERSE:
            y = -y
        x, y, u, v = tl.associative_scan((x, y, u, v), 0, _join_complex)
    else:
        x, u = tl.associative_scan((x, u), 0, _join)
    return step, x, y, u, v


@triton.jit
def _last(x, STEPS: tl.constexpr):
    """Return the last row."""
    return tl.sum(tl.where((tl.arange(0, STEPS) == STEPS - 1)[:, None], x, 0.0), 0)


@triton.jit(do_not_specialize=["time", "lanes", "units", "length"])
def _ends(
    a,
    us,
    factors,
    ends,
    time,
    lanes,
    units,
    length,
    CONSTANT: tl.constexpr,
    COMPLEX: tl.constexpr,
    REVERSE: tl.constexpr,
    STEPS: tl.constexpr,
    LANES: tl.constexpr,
):
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    chunk = tl.program_id(1)
    p = tl.full([LANES], 1.0, tl.float32)
    q = tl.zeros([LANES], tl.float32)
    h = tl.zeros([LANES], tl.float32)
    k = tl.zeros([LANES], tl.float32)
    for start in range(chunk * length, (chunk + 1) * length, STEPS):
        _, x, y, u, v = _tile(a, us, start, lane, time, lanes, units, CONSTANT, COMPLEX, REVERSE, STEPS)
        x, u = _last(x, STEPS), _last(u, STEPS)
        if COMPLEX:
            y, v = _last(y, STEPS), _last(v, STEPS)
            p, q, h, k = _join_complex(p, q, h, k, x, y, u, v)
        else:
            p, h = _join(p, h, x, u)
    at = chunk * lanes + lane
    _store(factors, at, p, q, lane < lanes, COMPLEX)
    _store(ends, at, h, k, lane < lanes, COMPLEX)


@triton.jit(do_not_specialize=["time", "lanes", "units", "length"])
def _states(
    a,
    us,
    h0,
    factors,
    ends,
    states,
    hs,
    into_a,
    time,
    lanes,
    units,
    length,
    CONSTANT: tl.constexpr,
    COMPLEX: tl.constexpr,
    REVERSE: tl.constexpr,
    STEPS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Fill `hs`. In reverse, `us` and `hs` are gradients, `states` the states, and `into_a` is filled too."""
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    chunk = tl.program_id(1)
    known = lane < lanes
    h = tl.zeros([LANES], tl.float32)
    k = h
    if not REVERSE:
        h, k = _load(h0, lane, known, COMPLEX)
    for earlier in range(chunk):
        p, q = _load(factors, earlier * lanes + lane, known, COMPLEX)
        u, v = _load(ends, earlier * lanes + lane, known, COMPLEX)
        if COMPLEX:
            _, _, h, k = _join_complex(p, q, h, k, p, q, u, v)
        else:
            _, h = _join(p, h, p, u)
    total = tl.zeros([LANES], tl.float32)
    total_imag = total
    for start in range(chunk * length, (chunk + 1) * length, STEPS):
        step, x, y, u, v = _tile(a, us, start, lane, time, lanes, units, CONSTANT, COMPLEX, REVERSE, STEPS)
        re = u + x * h[None, :]
        im = re
        if COMPLEX:
            re = u + x * h[None, :] - y * k[None, :]
            im = v + x * k[None, :] + y * h[None, :]
            k = _last(im, STEPS)
        h = _last(re, STEPS)
        inside = (step >= 0) & (step < time)
        _store_tile(hs, step, lane, re, im, inside, lanes, COMPLEX)
        if REVERSE:
            before, before_imag = _load_tile(states, step - 1, lane, inside & (step > 0), lanes, COMPLEX)
            first, first_imag = _load(h0, lane, known, COMPLEX)
            before += tl.where((step == 0)[:, None], first[None, :], 0.0)
            product = re * before
            product_imag = product
            if COMPLEX:  # times the conjugate
                before_imag += tl.where((step == 0)[:, None], first_imag[None, :], 0.0)
                product = re * before + im * before_imag
                product_imag = im * before - re * before_imag
            if CONSTANT:
                total += tl.sum(tl.where(inside[:, None], product, 0.0), 0)
                total_imag += tl.sum(tl.where(inside[:, None], product_imag, 0.0), 0)
            else:
                _store_tile(into_a, step, lane, product, product_imag, inside, lanes, COMPLEX)
    if REVERSE and CONSTANT:
        _store(into_a, chunk * lanes + lane, total, total_imag, known, COMPLEX)
