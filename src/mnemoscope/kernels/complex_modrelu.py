"""Complex modReLU in real arithmetic: a state is its real parts followed by its imaginary parts.

A step is then one real product of twice the size and few calls on halves; torch's elementwise functions of complex
numbers take several times as long on a CPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.kernels.activation import Activation, InPlace, steps_in_cache


class PairedModReLU(Activation):
    """`sgn(z) relu(|z| + b)` of pairs `z` (..., 2 units); `b` has one number per unit.

    With `d = h/|h|` and `k = |h|/|z|`, as for `ModReLU`, `g_z = k g + (1 - k) (d . g) d`; the dot is the product of
    pairs.
    """

    name = "modrelu of pairs"
    takes_bias = True
    takes_complex = False
    stops = True

    def __call__(self, z: Tensor, bias: Tensor | None = None) -> Tensor:
        assert bias is not None
        pairs = _pairs(z)
        size = _size(pairs)
        return (pairs * (torch.relu(size + bias) / torch.where(size == 0, 1, size))).flatten(-2)

    def in_place(self, like: Tensor, bias: Tensor | None = None) -> InPlace:
        assert bias is not None
        limits, scale = torch.finfo(like.dtype), like.new_empty(*like.shape[:-1], like.shape[-1] // 2)
        low, high, wide = limits.tiny, limits.max, scale.unsqueeze(-2)

        def apply(z: Tensor) -> Tensor:
            pairs = _pairs(z)
            torch.hypot(*pairs.unbind(-2), out=scale).clamp_min_(low)
            torch.div(bias, scale, out=scale).clamp_(-1, high)  # sgn(z) relu(|z| + b) = z + z max(b / |z|, -1)
            pairs.addcmul_(pairs, wide)
            return z

        return apply

    def pull_back(self, g: Tensor, h: Tensor, bias: Tensor | None = None) -> Tensor:
        assert bias is not None
        d, k = _frame(_pairs(h), bias)
        pairs = _pairs(g)
        found = k * pairs + (1 - k) * (d * pairs).sum(-2, keepdim=True) * d
        return torch.where(k == 0, 0, found).flatten(-2)

    def gates(self, hs: Tensor, bias: Tensor | None = None) -> tuple[Tensor, ...]:
        assert bias is not None
        limits, pairs = torch.finfo(hs.dtype), _pairs(hs)
        size = torch.hypot(*pairs.split(1, -2))
        before = torch.maximum(size - bias, limits.eps * size).clamp_min_(limits.tiny)
        d, k = pairs / size.clamp_min(limits.tiny), size / before
        return d, k, 1 - k

    def pull_back_(self, g: Tensor, *gates: Tensor) -> None:
        d, k, rest = gates
        pairs = _pairs(g)
        real, imaginary = torch.mul(d, pairs).split(1, -2)
        pairs.mul_(k).addcmul_(real.add_(imaginary).mul_(rest), d)

    def bias_gradient(self, g_z: Tensor, h: Tensor) -> Tensor:
        length, total, tiny = steps_in_cache(h), [], torch.finfo(h.dtype).tiny
        for pairs, g in zip(_pairs(h).split(length), _pairs(g_z).split(length), strict=True):
            real, imaginary = (pairs * g).split(1, -2)
            size = torch.hypot(*(pairs if not h.requires_grad else _not_off(pairs)).split(1, -2)).clamp_min(tiny)
            total.append(((real + imaginary) / size).reshape(-1, size.shape[-1]).sum(0))
        return torch.stack(total).sum(0)


PAIRED_MODRELU = PairedModReLU()


def real_matrix(V: Tensor) -> Tensor:
    """Return the real matrix (2 units, 2 units) that multiplies real parts followed by imaginary parts as `V` does."""
    return torch.cat([torch.cat([V.real, -V.imag], 1), torch.cat([V.imag, V.real], 1)])


def as_parts(x: Tensor) -> Tensor:
    """Return the real parts followed by the imaginary parts (..., 2 units) of complex numbers (..., units)."""
    return torch.cat([x.real, x.imag], -1)


def from_parts(parts: Tensor) -> Tensor:
    """Return the complex numbers (..., units) of real parts followed by imaginary parts (..., 2 units)."""
    return torch.view_as_complex(torch.stack(parts.chunk(2, -1), -1))


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
