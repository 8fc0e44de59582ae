"""Linear recurrences, in few sequential steps or in cheap ones.

`linear_scan` takes O(sqrt time) steps. Both scans only multiply and add, so zeros and factors of modulus up to 1 are
harmless. Their derivatives are scans of the same kind run backwards in time,

    G_t = g_t + A_{t+1}^H G_{t+1},   du_t = G_t,   dA_t = G_t h_{t-1}^H,   dh_0 = A_1^H G_1,

so derivatives of any order, `torch.func` and forward mode work.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Inexact
from mnemoscope.kernels.devices import no_triton
from mnemoscope.kernels.stepping import as_array

MANY = 128
"""Units times batch from which a diagonal scan on a CPU is faster step by step than by pairing neighbours."""


def diagonal_scan(
    a: Inexact[Tensor, " units"] | Inexact[Tensor, "time batch units"],
    us: Inexact[Tensor, "time batch units"],
    h0: Inexact[Tensor, "batch units"],
    resets: Bool[Tensor, "time batch"] | None = None,
) -> Inexact[Tensor, "time batch units"]:
    """Return the states `h_t = a h_{t-1} + u_t`, or `a_t h_{t-1} + u_t`.

    The work is O(time). On a GPU, and with many units on a CPU, forward and backward are written out. Otherwise, and
    under transforms of `torch.func`, neighbours are paired in O(log time) steps (Blelloch 1990). Where `resets` is
    True, the state is zero before the step.

    >>> diagonal_scan(torch.tensor([0.5]), torch.zeros(3, 1, 1), torch.ones(1, 1)).flatten().tolist()
    [0.5, 0.25, 0.125]
    """
    if not a.dtype == us.dtype == h0.dtype:
        raise ValueError(f"a, us and h0 must have one dtype, but have {a.dtype}, {us.dtype} and {h0.dtype}.")
    if resets is not None:
        a = torch.where(resets.unsqueeze(-1), 0, a)
    return _run(_Diagonal, a, us, h0)


def linear_scan(
    V: Inexact[Tensor, "units units"], us: Inexact[Tensor, "time batch units"], h0: Inexact[Tensor, "batch units"]
) -> Inexact[Tensor, "time batch units"]:
    """Return the states `h_t = V h_{t-1} + u_t`, with chunks of about sqrt(time / 2) steps as a larger batch.

    1. Each chunk runs from a zero state, for its last state. 2. The chunks are combined with `V^length`. 3. Each chunk
    runs again from its true first state. This is twice the arithmetic of a loop, in about `2 sqrt(2 time)` steps
    instead of `time`, and pays if latency dominates. Forward and backward on one H200, 1,000 steps: 8-12 times faster
    than a loop of addmm at N = 64..512, but slower at N = batch = 1,024.

    >>> linear_scan(0.5 * torch.eye(1), torch.zeros(3, 1, 1), torch.ones(1, 1)).flatten().tolist()
    [0.5, 0.25, 0.125]
    """
    if not V.dtype == us.dtype == h0.dtype:
        raise ValueError(f"V, us and h0 must have one dtype, but have {V.dtype}, {us.dtype} and {h0.dtype}.")
    return _run(_Dense, V, us, h0)


def linear_scan_pays(time: int, batch: int, units: int) -> bool:
    """Whether `linear_scan` is faster on a CPU than a loop over steps.

    Measured with one thread, forward and backward, 1,000 steps: 1.5 to 2.2 times faster up to 65,000 operations per
    step (N = 64 and batch 4, N = 128 and batch 1), as fast at 130,000, half as fast at 330,000; no gain in 100 steps.
    """
    return time >= 200 and 2 * batch * units**2 <= 65_536


def _run(scan: type[_Scan], A: Tensor, us: Tensor, h0: Tensor) -> Tensor:
    hs = scan.apply(A, us, h0)
    assert isinstance(hs, Tensor)
    return hs


class _Scan(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        A, _, h0 = inputs
        ctx.save_for_backward(A, h0, output)
        ctx.save_for_forward(A, h0, output)


class _Diagonal(_Scan):
    @staticmethod
    def forward(a: Tensor, us: Tensor, h0: Tensor) -> Tensor:
        fused = _fused_diagonal(us)
        if fused == "gpu":
            from mnemoscope.kernels import triton_linear

            return triton_linear.diagonal(a, us, h0)
        if fused == "cpu":
            return _step_by_step(a.expand(us.shape), us, h0)
        first = a if a.dim() == 1 else a[0]
        return _pair_up(a, torch.cat([(us[0] + first * h0).unsqueeze(0), us[1:]]))

    @staticmethod
    def backward(ctx: Any, *gs: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        a, h0, hs = ctx.saved_tensors
        g, a_H = gs[0], a.conj()
        fused = None if torch.is_grad_enabled() else _fused_diagonal(g)
        if fused == "gpu":
            from mnemoscope.kernels import triton_linear

            da, G = triton_linear.diagonal_backward(a, h0, hs, g)
        elif fused == "cpu":
            da, G = _step_back(a.expand(g.shape), h0, hs, g)
        else:
            # in reverse, G_t is multiplied by a_{t+1}; the last a multiplies the zero state and is irrelevant
            later = a_H if a.dim() == 1 else a_H.roll(-1, 0).flip(0)
            G = _run(_Diagonal, later, g.flip(0), torch.zeros_like(h0)).flip(0)
            da = G * torch.cat([h0.unsqueeze(0), hs[:-1]]).conj()
        return (da.sum((0, 1)) if a.dim() == 1 else da), G, (a_H if a.dim() == 1 else a_H[0]) * G[0]

    @staticmethod
    def jvp(ctx: Any, ta: Tensor | None, tu: Tensor | None, th0: Tensor | None) -> Tensor:  # type: ignore
        a, h0, hs = ctx.saved_tensors
        us = torch.zeros_like(hs) if tu is None else tu
        if ta is not None:
            us = us + ta * torch.cat([h0.unsqueeze(0), hs[:-1]])
        return _run(_Diagonal, a, us, torch.zeros_like(h0) if th0 is None else th0)


def _fused_diagonal(us: Tensor) -> Literal["cpu", "gpu"] | None:
    """Return where a diagonal scan can be written in place."""
    if torch._C._are_functorch_transforms_active():
        return None
    if _fused_on_gpu(us):
        return "gpu"
    known = us.dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128)
    return "cpu" if known and us.device.type == "cpu" and us[0].numel() >= MANY else None


def _fused_on_gpu(us: Tensor) -> bool:
    known = us.dtype in (torch.float32, torch.complex64, torch.bfloat16, torch.float16)
    return known and no_triton("diagonal scan", us.device) is None


def _step_by_step(a: Tensor, us: Tensor, h0: Tensor) -> Tensor:
    """Solve `h_t = a_t h_{t-1} + u_t` by a loop over the steps in numpy, whose calls cost less than those of torch."""
    hs = torch.empty_like(us, memory_format=torch.contiguous_format)
    h, *rows = (as_array(x) for x in (h0, a, us, hs))
    for factor, u, out in zip(*rows, strict=True):
        h = np.add(np.multiply(factor, h, out=out), u, out=out)
    return hs


def _step_back(a: Tensor, h0: Tensor, hs: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of all factors and of us."""
    G, da = torch.empty_like(hs), torch.empty_like(hs)
    factors, rows, outs = (as_array(x) for x in (a.conj(), g, G))
    outs[-1] = later = rows[-1]
    for factor, into, out in zip(factors[:0:-1], rows[-2::-1], outs[-2::-1], strict=True):
        later = np.add(np.multiply(factor, later, out=out), into, out=out)
    torch.mul(G[1:], hs[:-1].conj(), out=da[1:])
    torch.mul(G[0], h0.conj(), out=da[0])
    return da, G


def _pair_up(a: Tensor, us: Tensor) -> Tensor:
    """Solve `h_t = a h_{t-1} + u_t` from zero: merge steps 2k and 2k + 1, solve for these, fill in the even ones."""
    time, fixed = us.shape[0], a.dim() == 1
    if time == 1:
        return us
    odd = a if fixed else a[1::2]
    paired = us[1::2] + odd * us[: time - 1 : 2]
    hs_odd = _pair_up(a * a if fixed else odd * a[: time - 1 : 2], paired)
    rest = us[2::2] + (a if fixed else a[2::2]) * hs_odd[: (time - 1) // 2]
    hs_even = torch.cat([us[:1], rest])
    pairs = torch.stack([hs_even[: time // 2], hs_odd], 1).flatten(0, 1)
    return pairs if time % 2 == 0 else torch.cat([pairs, hs_even[-1:]])


class _Dense(_Scan):
    @staticmethod
    def forward(V: Tensor, us: Tensor, h0: Tensor) -> Tensor:
        time, batch, units = us.shape
        length = max(1, ceil(sqrt(time / 2)))
        number = ceil(time / length)
        V_T = V.mT
        blank = us.new_zeros(number * length - time, batch, units)
        chunks = torch.cat([us, blank]).view(number, length, batch, units).transpose(0, 1)
        ends = chunks[0]  # (number, batch, units), from zero states
        for u in chunks[1:].unbind():
            ends = ends @ V_T + u
        power = torch.linalg.matrix_power(V, length).mT
        transformed = torch._C._are_functorch_transforms_active()  # then values are not available
        if not transformed and not torch.isfinite(power).all():  # 0 times infinity is NaN where the states may be 0
            h, hs = h0, []
            for u in us.unbind():
                h = h @ V_T + u
                hs.append(h)
            return torch.stack(hs)
        starts = [h0]
        for end in ends[:-1].unbind():
            starts.append(starts[-1] @ power + end)
        h, hs = torch.stack(starts), []
        for u in chunks.unbind():
            h = h @ V_T + u
            hs.append(h)
        return torch.stack(hs, 1).flatten(0, 1)[:time]

    @staticmethod
    def backward(ctx: Any, *gs: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        V, h0, hs = ctx.saved_tensors
        G = _run(_Dense, V.mH, gs[0].flip(0), torch.zeros_like(h0)).flip(0)
        before = torch.cat([h0.unsqueeze(0), hs[:-1]])
        return G.flatten(0, 1).mT @ before.conj().flatten(0, 1), G, G[0] @ V.conj()

    @staticmethod
    def jvp(ctx: Any, tV: Tensor | None, tu: Tensor | None, th0: Tensor | None) -> Tensor:  # type: ignore
        V, h0, hs = ctx.saved_tensors
        us = torch.zeros_like(hs) if tu is None else tu
        if tV is not None:
            us = us + torch.cat([h0.unsqueeze(0), hs[:-1]]) @ tV.mT
        return _run(_Dense, V, us, torch.zeros_like(h0) if th0 is None else th0)
