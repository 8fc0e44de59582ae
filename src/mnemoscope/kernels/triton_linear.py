"""Diagonal linear recurrences `h_t = a_t h_{t-1} + u_t` on a GPU, in one kernel.

A program takes some units of some sequences through all times, a tile of steps at a time: an associative scan within
the tile, then the last state goes to the next tile. Numbers are real, or complex as pairs, and computed in float32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from mnemoscope.kernels.devices import on_device

STEPS, LANES = 64, 32
"""Size of a tile."""


def diagonal(a: Tensor, us: Tensor, h0: Tensor) -> Tensor:
    """Return the states (time, batch, units); a is (units) or (time, batch, units)."""
    hs = torch.empty_like(us, memory_format=torch.contiguous_format)
    real = [torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in (a, us, h0, hs)]
    lanes = h0.numel()
    if hs.numel():
        with on_device(us):
            _scan[(triton.cdiv(lanes, LANES),)](
                *(x.contiguous() for x in real),
                len(us),
                lanes,
                us.shape[-1],
                CONSTANT=a.dim() == 1,
                COMPLEX=us.is_complex(),
                STEPS=STEPS,
                LANES=LANES,
                num_warps=4,
            )
    return hs


@triton.jit
def _join(a1, u1, a2, u2):
    return a1 * a2, a2 * u1 + u2


@triton.jit
def _join_complex(a1, b1, u1, v1, a2, b2, u2, v2):
    return a1 * a2 - b1 * b2, a1 * b2 + b1 * a2, a2 * u1 - b2 * v1 + u2, a2 * v1 + b2 * u1 + v2


@triton.jit(do_not_specialize=["time", "lanes", "units"])
def _scan(
    a,
    us,
    h0,
    hs,
    time,
    lanes,
    units,
    CONSTANT: tl.constexpr,
    COMPLEX: tl.constexpr,
    STEPS: tl.constexpr,
    LANES: tl.constexpr,
):
    PARTS: tl.constexpr = 2 if COMPLEX else 1
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    row = tl.arange(0, STEPS)
    known = lane < lanes
    h = tl.load(h0 + lane * PARTS, mask=known, other=0.0).to(tl.float32)
    h_imag = h
    if COMPLEX:
        h_imag = tl.load(h0 + lane * PARTS + 1, mask=known, other=0.0)
    for start in range(0, time, STEPS):
        step = start + row
        inside = (step < time)[:, None] & known[None, :]
        at = (step.to(tl.int64)[:, None] * lanes + lane[None, :]) * PARTS
        factor = at
        if CONSTANT:
            factor = tl.broadcast_to((lane % units)[None, :] * PARTS, STEPS, LANES).to(tl.int64)
        x = tl.load(a + factor, mask=inside, other=1.0).to(tl.float32)
        u = tl.load(us + at, mask=inside, other=0.0).to(tl.float32)
        last = (row == STEPS - 1)[:, None]
        if COMPLEX:
            y = tl.load(a + factor + 1, mask=inside, other=0.0)
            v = tl.load(us + at + 1, mask=inside, other=0.0)
            x, y, u, v = tl.associative_scan((x, y, u, v), 0, _join_complex)
            states = x * h[None, :] - y * h_imag[None, :] + u
            states_imag = x * h_imag[None, :] + y * h[None, :] + v
            tl.store(hs + at + 1, states_imag, mask=inside)
            h_imag = tl.sum(tl.where(last, states_imag, 0.0), 0)
        else:
            x, u = tl.associative_scan((x, u), 0, _join)
            states = x * h[None, :] + u
        tl.store(hs + at, states.to(hs.dtype.element_ty), mask=inside)
        h = tl.sum(tl.where(last, states, 0.0), 0)
