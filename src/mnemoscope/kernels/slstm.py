"""Scans of the sLSTM as one operator: on the CPU without a graph per step, on a GPU by kernels (`triton_slstm`).

A step, with the sums `a = u + V h` of i, f, z and o, and c and n stored divided by e^m:

    l = log f(a_f) + m_{t-1},   m_t = max(l, a_i),   i = exp(a_i - m_t),   f = exp(l - m_t),
    c_t = f c_{t-1} + i z,   n_t = f n_{t-1} + i,   h_t = o c_t / n_t.

As long as nothing has been written, n is 0 and m has no meaning: then m_t = a_i, so that no first write rounds to 0.

The backward pass, with H, C and N the gradients at h, c and n, and s the derivative of log f:

    C += H o / n,   N -= H o c / n^2,   D_o = H (c / n) o (1 - o),   D_z = C i (1 - z^2),
    D_i = (C z + N) i + (1 - w) E,   D_f = ((C c_{t-1} + N n_{t-1}) f + w E) s,   H_{t-1} = g_{t-1} + D V;

C and N are then multiplied by f, and E by w. w is 1 where l is the larger part of m, 0 where m_t is a_i, and 1/2 if
they are equal. `E = M - C c - N n`, with M the gradient at m, is 0 unless the last state has a gradient: outputs do
not depend on the scale e^m. Where the mask is False the state is held. A backward pass that builds a graph runs a loop.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op
from torch.nn.functional import logsigmoid

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.base.torch_state import flushed_denormals
from mnemoscope.kernels.devices import no_float32_scan, useful_threads
from mnemoscope.kernels.gated_loops import loop_gradients
from mnemoscope.kernels.gated_plans import gated_grid
from mnemoscope.kernels.stepping import held_steps

States = tuple[Tensor, Tensor, Tensor, Tensor]
"""h, c, n and m."""
LARGEST = 40.0
"""Largest logarithm of f. It is above 0 only where n is 0, and f then multiplies zeros."""


def slstm_scan(
    us: Float[Tensor, "time batch gates"],
    state: States,
    V: Float[Tensor, "gates units"],
    exponential: bool = False,
    mask: Bool[Tensor, "time batch"] | None = None,
) -> tuple[Float[Tensor, "time batch units"], States]:
    """Return the outputs h of all steps and the last state; the gates are i, f, z and o, in this order.

    With `exponential` the forget gate is exp, otherwise the logistic function. Where n is 0, as before the first write,
    c must be 0 too: the gradients assume it.

    >>> zeros = torch.zeros(1, 3)
    >>> hs, last = slstm_scan(torch.ones(2, 1, 12), (zeros, zeros, zeros, zeros), torch.zeros(12, 3))
    >>> round(hs[0, 0, 0].item(), 4)  # tanh(1) sigmoid(1)
    0.5568
    """
    hs, c, n, m, *_ = _slstm(us, *state, V, exponential, mask)
    return hs, (hs[-1].clone(), c, n, m)


def no_slstm_scan(device: torch.device, dtype: torch.dtype, units: int, batch: int) -> str | None:
    """Return the reason why the scan does not take these arguments, or None if it does."""
    name = "fused scan of an sLSTM"
    reason = no_float32_scan(name, device, dtype)
    if reason is None and device.type != "cpu" and gated_grid(device, units, batch) is None:
        return f"the {name} has no room for {units} units and {batch} sequences on this GPU"
    return reason


def _on_cpu(x: Tensor) -> bool:
    """Whether a scan of this tensor runs in torch's operations; tests replace it to interpret Triton's kernels."""
    return x.device.type == "cpu"


def _launch(
    kernel: str, given: tuple[Tensor, ...], mask: Tensor | None, out: tuple[Tensor, ...], units: int, **constants: Any
) -> None:
    """Launch a kernel, which needs Triton; the first tensor to fill has one row for each step and sequence."""
    from mnemoscope.kernels import triton_slstm
    from mnemoscope.kernels.triton_grid import launch_scan

    time, batch = out[0].shape[:2]
    grid = gated_grid(out[0].device, units, batch)
    if grid is None:
        raise ValueError(f"The GPU has no room for an sLSTM of {units} units and {batch} sequences.")
    launch_scan(triton_slstm, kernel, grid, given, mask, out, (time, batch, units), constants)


@custom_op(
    "mnemoscope::slstm_scan",
    mutates_args=(),
    schema="(Tensor us, Tensor h, Tensor c, Tensor n, Tensor m, Tensor V, bool exponential, Tensor? mask) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _slstm(
    us: Tensor, h: Tensor, c: Tensor, n: Tensor, m: Tensor, V: Tensor, exponential: bool, mask: Tensor | None
) -> tuple[Tensor, ...]:
    """Return h of all steps and the last c, n and m; c, n, the gates i, f, z and o, and log f(a_f) of all steps."""
    if not _on_cpu(us):
        us, h, c, n, V = (x.contiguous() for x in (us, h, c, n, V))
        hs, cs, ns, log_f = (us.new_empty(len(us), *h.shape) for _ in range(4))
        gates, m = torch.empty_like(us), m.clone(memory_format=torch.contiguous_format)
        out = (hs, cs, ns, gates, log_f, m)
        _launch("slstm_forward", (us, h, c, n, V), mask, out, h.shape[1], EXPONENTIAL=exponential)
        return hs, cs[-1].clone(), ns[-1].clone(), m, cs, ns, gates, log_f
    units, tiny = h.shape[1], torch.finfo(us.dtype).tiny
    gates = us.clone(memory_format=torch.contiguous_format)
    hs, cs, ns, log_f = (us.new_empty(len(us), *h.shape) for _ in range(4))
    with useful_threads(h, V.shape[0]), flushed_denormals():
        V_T, spare = V.mT.contiguous(), torch.empty_like(h, memory_format=torch.contiguous_format)
        empty = bool((n == 0).any())
        parts = (gates, gates[..., : 2 * units].unflatten(-1, (2, -1)), *gates.chunk(4, -1), hs, cs, ns, log_f)
        each = zip(*(part.unbind() for part in parts), held_steps(mask, len(us)), strict=True)
        for row, i_f, i, f, z, o, h_new, c_new, n_new, log_f_t, keep in each:
            row.addmm_(h, V_T)
            log_f_t.copy_(f if exponential else logsigmoid(f))
            m_new = torch.maximum(torch.add(log_f_t, m, out=f), i)
            if empty:
                m_new = torch.where(n == 0, i, m_new)
                f.clamp_max_(m_new + LARGEST)
            i_f.sub_(m_new.unsqueeze(1)).exp_()
            z.tanh_()
            o.sigmoid_()
            torch.mul(f, c, out=c_new).addcmul_(i, z)
            torch.addcmul(i, f, n, out=n_new)
            torch.div(c_new, torch.clamp_min(n_new, tiny, out=spare), out=h_new).mul_(o)
            if keep is not None:
                for old, new in ((h, h_new), (c, c_new), (n, n_new), (m, m_new)):
                    torch.where(keep, old, new, out=new)
            empty = empty and keep is not None and bool((n_new == 0).any())
            h, c, n, m = h_new, c_new, n_new, m_new
    return hs, c.clone(), n.clone(), m.clone(), cs, ns, gates, log_f


@_slstm.register_fake
def _(
    us: Tensor, h: Tensor, c: Tensor, n: Tensor, m: Tensor, V: Tensor, exponential: bool, mask: Tensor | None
) -> tuple[Tensor, ...]:
    hs, cs, ns, log_f = (us.new_empty(len(us), *h.shape) for _ in range(4))
    return hs, *(us.new_empty(part.shape) for part in (c, n, m)), cs, ns, us.new_empty(us.shape), log_f


@custom_op(
    "mnemoscope::slstm_scan_adjoint",
    mutates_args=(),
    schema="(Tensor g, Tensor C, Tensor N, Tensor M, Tensor c0, Tensor n0, Tensor cs, Tensor ns, Tensor gates, "
    "Tensor slopes, Tensor V, Tensor? mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def _adjoint(
    g: Tensor,
    C: Tensor,
    N: Tensor,
    M: Tensor,
    c0: Tensor,
    n0: Tensor,
    cs: Tensor,
    ns: Tensor,
    gates: Tensor,
    slopes: Tensor,
    V: Tensor,
    mask: Tensor | None,
) -> tuple[Tensor, ...]:
    """Return the gradients of the sums and of the first h, c, n and m.

    `g` is that of h of all steps; C, N and M are those of the last c, n and m; `slopes` are the derivatives s.
    """
    D = torch.empty_like(gates)
    if not _on_cpu(g):
        E = M - C * cs[-1] - N * ns[-1]
        C, N = (x.clone(memory_format=torch.contiguous_format) for x in (C, N))
        dh, c0, n0 = torch.zeros_like(C), c0.contiguous(), n0.contiguous()
        given = (g.contiguous(), c0, n0, cs, ns, gates, slopes.contiguous(), V.contiguous())
        _launch("slstm_adjoint", given, mask, (D, dh, C, N, E), c0.shape[1])
        return D, dh, C, N, E + C * c0 + N * n0
    with useful_threads(c0, V.shape[0]), flushed_denormals():
        CN, V = torch.stack([C, N]), V.contiguous()
        E = M - C * cs[-1] - N * ns[-1]
        excess = bool(E.any())
        factors = _factors(c0, n0, cs, ns, gates, slopes, mask)
        H, spare = g[-1].clone(memory_format=torch.contiguous_format), torch.empty_like(g[-1])
        into, by_gate = torch.cat([torch.zeros_like(g[:1]), g[:-1]]), D.unflatten(-1, (4, -1))
        parts = (D, by_gate[:, :, :2], by_gate[:, :, :3], by_gate[:, :, 3], into, *factors)
        each = (*(part.unbind()[::-1] for part in parts), held_steps(mask, len(g))[::-1])
        for row, d_if, d_ifz, d_o, g_t, to_cn, to_o, by_c, by_n, f, w, slope, keep in zip(*each, strict=True):
            CN.addcmul_(H, to_cn)
            torch.mul(H, to_o, out=d_o)
            torch.mul(CN[0].unsqueeze(1), by_c, out=d_ifz)
            d_if.addcmul_(CN[1].unsqueeze(1), by_n)
            CN.mul_(f)
            if excess:
                later, E = E, E * w
                d_if[:, 0].add_(later - E)
                d_if[:, 1].addcmul_(E, slope)
            torch.addmm(g_t, row, V, out=spare)
            if keep is not None:
                spare.addcmul_(H, keep)
            H, spare = spare, H
    C, N = CN.unbind()
    return D, H.contiguous(), C.clone(), N.clone(), (E + C * c0 + N * n0).contiguous()


@_adjoint.register_fake
def _(
    g: Tensor,
    C: Tensor,
    N: Tensor,
    M: Tensor,
    c0: Tensor,
    n0: Tensor,
    cs: Tensor,
    ns: Tensor,
    gates: Tensor,
    slopes: Tensor,
    V: Tensor,
    mask: Tensor | None,
) -> tuple[Tensor, ...]:
    return gates.new_empty(gates.shape), *(gates.new_empty(c0.shape) for _ in range(4))


def _factors(
    c0: Tensor, n0: Tensor, cs: Tensor, ns: Tensor, gates: Tensor, slopes: Tensor, mask: Tensor | None
) -> tuple[Tensor, ...]:
    """Return the factors of H in C, N and D_o, those of C and of N in the other D, f, w, and s, for each step."""
    before_c, before_n = (torch.cat([old.unsqueeze(0), new[:-1]]) for old, new in ((c0, cs), (n0, ns)))
    i, f, z, o = gates.chunk(4, -1)
    tiny = torch.finfo(ns.dtype).tiny
    size = ns.clamp_min(tiny)
    ratio, to_c = cs / size, o / size
    to_n = torch.where(ns >= tiny, -to_c * ratio, 0)
    to_cn = torch.stack([to_c, to_n], 1)
    to_o = ratio * o * (1 - o)
    through = f * slopes
    by_c = torch.stack([i * z, before_c * through, i * (1 - z * z)], 2)
    by_n = torch.stack([i, before_n * through], 2)
    w = torch.where((f == 1) & (before_n != 0), torch.where(i == 1, 0.5, 1.0).to(f), 0)
    if mask is not None:
        held = ~mask.unsqueeze(-1)
        for factor in (to_cn, by_c, by_n):
            factor.masked_fill_(held.unsqueeze(1 if factor is to_cn else -1), 0)
        to_o, slopes = to_o.masked_fill(held, 0), slopes.masked_fill(held, 0)
        f, w = f.masked_fill(held, 1), w.masked_fill(held, 1)
    return to_cn, to_o, by_c, by_n, f, w, slopes


def _save(ctx: Any, inputs: tuple, output: tuple) -> None:
    us, h, c, n, m, V, ctx.exponential, mask = inputs
    hs, _, _, _, *kept = output
    ctx.mark_non_differentiable(*kept)
    ctx.save_for_backward(us, h, c, n, m, V, mask, hs, *kept)


def _backward(ctx: Any, *gs: Tensor) -> tuple:
    us, h, c, n, m, V, mask, hs, cs, ns, gates, log_f = ctx.saved_tensors
    gs = gs[:4]
    if torch.is_grad_enabled():
        loop = partial(slstm_loop, exponential=ctx.exponential, mask=mask)
        return *loop_gradients(loop, [us, h, c, n, m, V], gs), None, None
    slopes = torch.ones_like(log_f) if ctx.exponential else torch.expm1(log_f).neg_()  # 1 - f, without cancellation
    D, *starts = _adjoint(*gs, c, n, cs, ns, gates, slopes, V, mask)
    dV = None
    if ctx.needs_input_grad[5]:
        # backward inside autocast must not round these products
        with torch.autocast(D.device.type, enabled=False), useful_threads(h, V.shape[0]):
            later, earlier = D[1:].reshape(-1, D.shape[2]), hs[:-1].reshape(-1, hs.shape[2])  # vmap cannot flatten
            dV = D[0].mT @ h + later.mT @ earlier
    return D, *starts, dV, None, None


_slstm.register_autograd(_backward, setup_context=_save)


def new_scale(kept: Tensor, a_i: Tensor, n: Tensor) -> Tensor:
    """Return m_t from l, a_i and n_{t-1}.

    >>> new_scale(torch.tensor([5.0, 5.0]), torch.tensor([1.0, 1.0]), torch.tensor([0.0, 1.0])).tolist()
    [1.0, 5.0]
    """
    return torch.where(n == 0, a_i, torch.maximum(kept, a_i))


def slstm_loop(
    us: Tensor, h: Tensor, c: Tensor, n: Tensor, m: Tensor, V: Tensor, exponential: bool, mask: Tensor | None
) -> tuple[Tensor, ...]:
    """Return h of all steps and the last c, n and m, with a graph for autograd."""
    state, hs = (h, c, n, m), []
    for t, u in enumerate(us.unbind()):
        h, c, n, m = state
        a_i, a_f, z, o = (u + h @ V.mT).chunk(4, -1)
        kept = (a_f if exponential else logsigmoid(a_f)) + m
        top = new_scale(kept, a_i, n)
        i, f = torch.exp(a_i - top), torch.exp((kept - top).clamp_max(LARGEST))
        c, n = f * c + i * torch.tanh(z), f * n + i
        new = (torch.sigmoid(o) * c / n.clamp_min(torch.finfo(n.dtype).tiny), c, n, top)
        if mask is not None:
            new = tuple(torch.where(mask[t].unsqueeze(-1), later, old) for later, old in zip(new, state, strict=True))
        state = new
        hs.append(state[0])
    return torch.stack(hs), *state[1:]
