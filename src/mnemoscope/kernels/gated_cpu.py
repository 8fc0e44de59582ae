"""Scans of GRU and LSTM on the CPU: one product and few elementwise calls per step, and no graph.

The steps of a piece of the sequence share buffers that stay in the cache. The backward pass first computes, for all
steps of a piece at once, the factors by which a gradient at a state is multiplied, so that a step of its loop is one
product and a few multiplications. The gradient of `V` is one product after the loop (`gated`).

LSTM, with `G` the gradient at h, `C` that at c and `s = tanh c`; the four gradients of the sums are

    C_t = G_t o (1 - s^2) + C_{t+1} f_{t+1},   D_o = G_t s o (1 - o),
    D_i = C_t g i (1 - i),   D_f = C_t c_{t-1} f (1 - f),   D_g = C_t i (1 - g^2),   G_{t-1} = g_{t-1} + D V.

GRU, with the candidate `n = phi(u_n + r v)` and `v = V_n h + b`; `phi` is tanh, or modReLU in a GORU:

    D_n = G (1 - z) phi',   D_v = D_n r,   D_r = D_n v r (1 - r),   D_z = G (h_{t-1} - n) z (1 - z),
    G_{t-1} = g_{t-1} + G z + [D_r, D_z, D_v] V.

Where the mask is False the state is held: the factors of D are 0 there, and the gradients pass by.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mnemoscope.base.torch_state import flushed_denormals
from mnemoscope.kernels.activation import ACTIVATIONS
from mnemoscope.kernels.devices import useful_threads
from mnemoscope.kernels.stepping import held_steps, pieces


def _before(first: Tensor, states: Tensor, steps: slice) -> Tensor:
    """Return the states before each of these steps."""
    if steps.start > 0:
        return states[steps.start - 1 : steps.stop - 1]
    return torch.cat([first.unsqueeze(0), states[: steps.stop - 1]])


def _by_gate(row: Tensor, gates: int) -> Tensor:
    """Return (..., gates, units) as a view of (..., gates * units)."""
    return row.unflatten(-1, (gates, -1))


def _held(mask: Tensor | None, steps: slice) -> Sequence[Tensor | None]:
    return held_steps(None if mask is None else mask[steps], steps.stop - steps.start)


# --- LSTM -------------------------------------------------------------------------------------------------------------


def lstm_forward(
    us: Tensor, h0: Tensor, c0: Tensor, V: Tensor, mask: Tensor | None, save: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return h and c of all steps, and the gates i, f, g and o if they are to be saved."""
    units = h0.shape[1]
    hs, cs = (us.new_empty(len(us), *h0.shape) for _ in range(2))
    gates = us.new_empty(us.shape if save else 0)
    with useful_threads(h0, V.shape[0]), flushed_denormals():
        V_T, s, h, c = V.mT.contiguous(), torch.empty_like(c0, memory_format=torch.contiguous_format), h0, c0
        for steps in pieces(h0, len(us), 4):
            rows = gates[steps].copy_(us[steps]) if save else us[steps].clone(memory_format=torch.contiguous_format)
            parts = (part.unbind() for part in (rows, *rows.split((2 * units, units, units), -1)))
            i, f, _, _ = (part.unbind() for part in rows.chunk(4, -1))
            each = zip(*parts, i, f, hs[steps].unbind(), cs[steps].unbind(), _held(mask, steps), strict=True)
            for row, i_f, g, o, i_t, f_t, h_new, c_new, keep in each:
                row.addmm_(h, V_T)
                i_f.sigmoid_()
                g.tanh_()
                o.sigmoid_()
                torch.mul(f_t, c, out=c_new).addcmul_(i_t, g)
                torch.mul(o, torch.tanh(c_new, out=s), out=h_new)
                if keep is not None:
                    torch.where(keep, h, h_new, out=h_new)
                    torch.where(keep, c, c_new, out=c_new)
                h, c = h_new, c_new
    return hs, cs, gates


def lstm_adjoint(
    g: Tensor, g_last: Tensor, c0: Tensor, cs: Tensor, gates: Tensor, V: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the sums, of h0 and of c0."""
    D = torch.empty_like(gates)
    with useful_threads(c0, V.shape[0]), flushed_denormals():
        G, spare = g[-1].clone(memory_format=torch.contiguous_format), torch.empty_like(g[-1])
        C = g_last.clone(memory_format=torch.contiguous_format)
        for steps in reversed(pieces(c0, len(g), 4)):
            earlier = _before(torch.zeros_like(g[0]), g, steps)
            factors, f = _lstm_factors(_before(c0, cs, steps), cs[steps], gates[steps], mask, steps)
            gradients = _by_gate(D[steps], 4)
            parts = (earlier, D[steps], gradients[:, :, :3], gradients[:, :, 3], *factors, f)
            for g_t, row, d_ifg, d_o, to_c, to_o, to_ifg, f_t, keep in zip(
                *(part.unbind()[::-1] for part in parts), _held(mask, steps)[::-1], strict=True
            ):
                C.addcmul_(G, to_c)
                torch.mul(G, to_o, out=d_o)
                torch.mul(C.unsqueeze(1), to_ifg, out=d_ifg)
                C.mul_(f_t)
                torch.addmm(g_t, row, V, out=spare)
                if keep is not None:
                    spare.addcmul_(G, keep)
                G, spare = spare, G
    return D, G.contiguous(), C


def _lstm_factors(
    before: Tensor, c: Tensor, gates: Tensor, mask: Tensor | None, steps: slice
) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Return the factors of G in C and in D_o and those of C in D_i, D_f and D_g, and f, for each step of a piece."""
    i, f, g, o = gates.chunk(4, -1)
    s = torch.tanh(c)
    to_o = (1 - o).mul_(o).mul_(s)
    to_c = s.mul_(s).neg_().add_(1).mul_(o)
    through_c = torch.empty(*c.shape[:2], 3, c.shape[2], dtype=c.dtype)
    to_i, to_f, to_g = through_c.unbind(2)
    torch.mul(torch.sub(1, i, out=to_i), i, out=to_i).mul_(g)
    torch.mul(torch.sub(1, f, out=to_f), f, out=to_f).mul_(before)
    torch.mul(g, g, out=to_g).neg_().add_(1).mul_(i)
    if mask is not None:
        held = ~mask[steps].unsqueeze(-1)
        for factor in (to_o, to_c, to_i, to_f, to_g):
            factor.masked_fill_(held, 0)
        f = f.masked_fill(held, 1)
    return (to_c, to_o, through_c), f


# --- GRU --------------------------------------------------------------------------------------------------------------


def gru_forward(
    us: Tensor,
    h0: Tensor,
    V: Tensor,
    bias: Tensor,
    activation: str,
    threshold: Tensor | None,
    mask: Tensor | None,
    save: bool,
) -> tuple[Tensor, Tensor]:
    """Return the states, and r, z, v and n if they are to be saved; the `threshold` is the bias of modReLU."""
    units = h0.shape[1]
    hs = us.new_empty(len(us), *h0.shape)
    gates = us.new_empty((*hs.shape[:2], 4 * units) if save else 0)
    with useful_threads(h0, V.shape[0]), flushed_denormals():
        V_T, h = V.mT.contiguous(), h0
        apply = ACTIVATIONS[activation].in_place(h0, threshold)
        for steps in pieces(h0, len(us), 4):
            rows = gates[steps] if save else us.new_empty(steps.stop - steps.start, len(h0), 4 * units)
            rows[..., : 2 * units] = us[steps, :, : 2 * units]
            rows[..., 2 * units : 3 * units] = bias
            sums, u_n = rows[..., : 3 * units], us[steps, :, 2 * units :]
            r, z, v, n = rows.chunk(4, -1)
            parts = (sums, rows[..., : 2 * units], u_n, r, z, v, n, hs[steps])
            for total, r_z, u, r_t, z_t, v_t, n_t, new, keep in zip(
                *(part.unbind() for part in parts), _held(mask, steps), strict=True
            ):
                total.addmm_(h, V_T)
                r_z.sigmoid_()
                apply(torch.addcmul(u, r_t, v_t, out=n_t))
                torch.lerp(n_t, h, z_t, out=new)
                if keep is not None:
                    torch.where(keep, h, new, out=new)
                h = new
    return hs, gates


def gru_adjoint(
    g: Tensor,
    h0: Tensor,
    hs: Tensor,
    gates: Tensor,
    V: Tensor,
    activation: str,
    threshold: Tensor | None,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of v and of the sums of r, z and n, in this order, and that of h0."""
    units = h0.shape[1]
    D = torch.empty_like(gates)
    with useful_threads(h0, V.shape[0]), flushed_denormals():
        V = V.roll(units, 0)  # v first, as in D
        G, spare = g[-1].clone(memory_format=torch.contiguous_format), torch.empty_like(g[-1])
        for steps in reversed(pieces(h0, len(g), 4)):
            earlier = _before(torch.zeros_like(g[0]), g, steps)
            factors, z = _gru_factors(_before(h0, hs, steps), gates[steps], activation, threshold, mask, steps)
            parts = (earlier, _by_gate(D[steps], 4), D[steps, :, : 3 * units], factors, z)
            for g_t, d, of_products, factor, z_t in zip(*(part.unbind()[::-1] for part in parts), strict=True):
                torch.mul(G.unsqueeze(1), factor, out=d)
                torch.addcmul(g_t, G, z_t, out=spare).addmm_(of_products, V)
                G, spare = spare, G
    return D, G.contiguous()


def _gru_factors(
    before: Tensor, gates: Tensor, activation: str, threshold: Tensor | None, mask: Tensor | None, steps: slice
) -> tuple[Tensor, Tensor]:
    """Return the factors of G in D_v, D_r, D_z and D_n (time, batch, 4, units), and z, for each step of a piece."""
    r, z, v, n = gates.chunk(4, -1)
    factors = torch.empty(*n.shape[:2], 4, n.shape[2], dtype=n.dtype)
    to_v, to_r, to_z, to_n = factors.unbind(2)
    torch.sub(1, z, out=to_n)
    torch.mul(torch.sub(before, n, out=to_z).mul_(z), to_n, out=to_z)
    for slope in ACTIVATIONS[activation].gates(n, threshold):
        to_n.mul_(slope)
    torch.mul(to_n, r, out=to_v)
    torch.mul(torch.sub(1, r, out=to_r).mul_(v), to_v, out=to_r)
    if mask is not None:
        held = ~mask[steps].unsqueeze(-1)
        factors.masked_fill_(held.unsqueeze(-1), 0)
        z = z.masked_fill(held, 1)
    return factors, z
