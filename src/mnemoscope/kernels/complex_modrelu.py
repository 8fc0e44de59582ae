"""Complex modReLU on the CPU in real arithmetic: a state is its real parts followed by its imaginary parts.

A step is then one real product of twice the size and few calls on buffers that all steps share; torch's elementwise
functions of complex numbers take several times as long.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.kernels.activation import Activation
from mnemoscope.kernels.stepping import Steps, held_steps, pieces


class PairedModReLU(Activation):
    """`sgn(z) relu(|z| + b)` of pairs `z` (..., 2 units); `b` has one number per unit.

    With `d = h/|h|` and `k = |h|/|z|`, as for `ModReLU`, `g_z = k g + (1 - k) (d . g) d`; the dot is the product of
    pairs.
    """

    name = "modrelu of pairs"
    takes_bias = True
    takes_complex = False
    stops = True
    runs_in_numpy = False  # its product is too large, and `forward` calls numpy itself

    def __call__(self, z: Tensor, bias: Tensor | None = None) -> Tensor:
        assert bias is not None
        pairs = _pairs(z)
        size = _size(pairs)
        return (pairs * (torch.relu(size + bias) / torch.where(size == 0, 1, size))).flatten(-2)

    def pull_back(self, g: Tensor, h: Tensor, bias: Tensor | None = None) -> Tensor:
        assert bias is not None
        d, k = _frame(_pairs(h), bias)
        pairs = _pairs(g)
        found = k * pairs + (1 - k) * (d * pairs).sum(-2, keepdim=True) * d
        return torch.where(k == 0, 0, found).flatten(-2)

    def bias_gradient(self, g_z: Tensor, h: Tensor) -> Tensor:
        units = h.shape[-1] // 2
        d, _ = _frame(_pairs(h), h.new_zeros(units))
        return (d * _pairs(g_z)).reshape(-1, 2, units).sum((0, 1))


PAIRED_MODRELU = PairedModReLU()


def forward(us: Tensor, h0: Tensor, V: Tensor, bias: Tensor, mask: Tensor | None) -> Tensor:
    """Return the states (time, batch, 2 units) of all steps: `h = k z` with `k = max(1 + b / |z|, 0)`."""
    steps, limits, units = Steps(h0), torch.finfo(h0.dtype), len(bias)
    hs, V_T = torch.empty_like(us, memory_format=torch.contiguous_format), V.mT.contiguous()
    h, z, k = h0.clone(memory_format=torch.contiguous_format), *(h0.new_empty(h0.shape) for _ in range(2))
    size, one, zero = (h0.new_full((len(h0), units), value) for value in (0.0, 1.0, 0.0))
    b = bias.expand_as(size).contiguous()
    least = (b.abs() * (2 / limits.max)).clamp_min_(limits.tiny)  # for which b / |z| is finite
    real, imaginary = _pairs(z).unbind(1)
    h_, z_, k_, size_, one_, least_, b_ = map(steps.writable, (h, z, k, size, one, least, b))
    k_pairs, size_pairs, zero_pairs = map(
        steps.writable, (_pairs(k), size.unsqueeze(1).expand_as(_pairs(k)), zero.unsqueeze(1))
    )
    maximum, add, divide, multiply = steps.maximum, steps.add, steps.divide, steps.multiply
    with np.errstate(all="ignore"):
        for u, row, keep in zip(steps.rows(us), steps.rows(hs), held_steps(mask, len(us)), strict=True):
            z_[...] = u
            z.addmm_(h, V_T)
            torch.hypot(real, imaginary, out=size)
            maximum(size_, least_, out=size_)
            divide(b_, size_, out=size_)
            add(size_, one_, out=size_)
            maximum(size_pairs, zero_pairs, out=k_pairs)
            if keep is None:
                multiply(z_, k_, out=h_)
            else:
                torch.where(keep, h, z.mul_(k), out=h)
            row[...] = h_
    return hs


def adjoint(g: Tensor, hs: Tensor, V: Tensor, bias: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the sums, of h0, and of the bias.

    For each pair, `g_z = M g` with the symmetric matrix `M = k I + (1 - k) d d^T`.
    """
    steps, held, dbias = Steps(hs[0]), held_steps(mask, len(hs)), torch.zeros_like(bias)
    D = torch.empty_like(hs, memory_format=torch.contiguous_format)
    G, later, crossed, carried = (hs.new_zeros(hs.shape[1:]) for _ in range(4))
    G_, later_, crossed_ = map(steps.writable, (G, later, crossed))
    (G_real, G_imaginary), (to_real, to_imaginary) = (map(steps.writable, _pairs(x).unbind(1)) for x in (G, crossed))
    add, multiply = steps.add, steps.multiply
    with np.errstate(all="ignore"):
        parts = pieces(hs[0], len(hs), 2)
        slopes = _Slopes(hs[parts[0]], bias)
        for part in reversed(parts):
            rows = (*(x[part] for x in (g, D)), *slopes(hs[part]))
            each = (*(steps.rows(x)[::-1] for x in rows), held[part][::-1])
            for g_t, row, diagonal, off_diagonal, keep in zip(*each, strict=True):
                G_[...] = g_t
                G.addmm_(later, V)
                if keep is not None:
                    carried = torch.where(keep, G.add_(carried), 0)
                multiply(off_diagonal, G_imaginary, out=to_real)
                multiply(off_diagonal, G_real, out=to_imaginary)
                multiply(G_, diagonal, out=later_)
                add(later_, crossed_, out=later_)
                if keep is not None:
                    later.masked_fill_(keep, 0)
                row[...] = later_
            dbias += slopes.radial(hs[part], D[part]).sum((0, 1))
    return D, carried.addmm_(later, V), dbias


class _Slopes:
    """The matrices M of a piece of the sequence, in buffers that all pieces share and that stay in the cache.

    `M = k I + w h h^T` with `k = |h| / |z|` and `w = (1 - k) / |h|^2`.
    """

    def __init__(self, h: Tensor, bias: Tensor) -> None:
        self.bias, self.limits = bias, torch.finfo(h.dtype)
        self.diagonal = torch.empty_like(h, memory_format=torch.contiguous_format)
        half = (*h.shape[:-1], len(bias))
        self.norm, self.k, self.w, self.beside = (h.new_empty(half) for _ in range(4))

    def __call__(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return the diagonal of M (time, batch, 2 units), and the entry off it (time, batch, units)."""
        buffers = (self.diagonal, self.norm, self.k, self.w, self.beside)
        diagonal, norm, k, w, beside = (buffer[: len(h)] for buffer in buffers)
        squares = _pairs(torch.mul(h, h, out=diagonal))
        torch.sqrt(torch.add(*squares.unbind(-2), out=beside), out=norm)
        torch.sub(norm, self.bias, out=w).clamp_min_(self.limits.tiny)  # |z| = |h| - b
        torch.div(norm, w, out=k).clamp_max_(1 / self.limits.eps)
        torch.sub(1, k, out=w).div_(beside.clamp_min_(self.limits.tiny))
        torch.addcmul(k.unsqueeze(-2), w.unsqueeze(-2), squares, out=squares)
        return diagonal, torch.mul(*_pairs(h).unbind(-2), out=beside).mul_(w)

    def radial(self, h: Tensor, g: Tensor) -> Tensor:
        """Return the parts of gradients `g` along the states that were given last (time, batch, units)."""
        product, norm, dot = (buffer[: len(h)] for buffer in (self.diagonal, self.norm, self.k))
        torch.add(*_pairs(torch.mul(h, g, out=product)).unbind(-2), out=dot)
        return dot.div_(norm.clamp_min_(self.limits.tiny))


def real_matrix(V: Tensor) -> Tensor:
    """Return the real matrix (2 units, 2 units) that multiplies real parts followed by imaginary parts as `V` does."""
    return torch.cat([torch.cat([V.real, -V.imag], 1), torch.cat([V.imag, V.real], 1)])


def as_parts(x: Tensor) -> Tensor:
    """Return the real parts followed by the imaginary parts (..., 2 units) of complex numbers (..., units)."""
    return torch.cat([x.real, x.imag], -1)


def from_parts(parts: Tensor) -> Tensor:
    """Return the complex numbers (..., units) of real parts followed by imaginary parts (..., 2 units)."""
    return torch.complex(*parts.chunk(2, -1))


def _pairs(parts: Tensor) -> Tensor:
    return parts.unflatten(-1, (2, -1))


def _not_off(pairs: Tensor) -> Tensor:
    """Return pairs with 1 in place of those that are 0, where the gradient of the size is not defined."""
    return torch.where((pairs == 0).all(-2, keepdim=True), 1, pairs)


def _size(pairs: Tensor) -> Tensor:
    """Return |z| (..., 1, units), with the gradient 0 at 0."""
    off = (pairs == 0).all(-2, keepdim=True)
    return torch.where(off, 0, torch.hypot(*_not_off(pairs).split(1, -2)))


def _frame(h: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return d and k; k has one number for each pair, and both are 0 where h is 0."""
    size = _size(h)
    off = size == 0
    before = torch.maximum(size - bias, torch.finfo(size.dtype).eps * size)
    return h / torch.where(off, 1, size), size / torch.where(off, 1, before)
