"""Scans of complex modReLU on the CPU: products of real pairs in torch, and few elementwise calls of numpy.

A complex number is stored as the pair of its real and imaginary part, so that one real product of twice the size
multiplies states by the matrix. Elementwise functions of complex numbers take less time in numpy than in torch for
states of every size that was tried, 64 to 65,536 numbers, although numpy uses one thread.

With the direction `d = z/|z| = h/|h|` and `k = |h|/|z|`, both 0 for units that are off, the gradient `G` at h becomes

    r = conj(d) G,   D = d (Re r + i k Im r),   db = sum Re r;

the loop computes the conjugates of G and r, which are `d conj(G)`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.kernels.activation import Activation
from mnemoscope.kernels.stepping import as_array, held_steps, pieces


def applies(state: Tensor, phi: Activation) -> bool:
    """Whether these scans take states like this one."""
    return phi.name == "modrelu" and state.dtype in (torch.complex64, torch.complex128)


def forward(us: Tensor, h0: Tensor, V: Tensor, bias: Tensor, mask: Tensor | None) -> Tensor:
    """Return the states of all steps: `h = k z` with `k = max(1 + b / |z|, 0)`."""
    hs, matrix = torch.empty_like(us, memory_format=torch.contiguous_format), _pairs_of_product(V.mT)
    h, z = h0.clone(memory_format=torch.contiguous_format), h0.new_empty(h0.shape)
    h_, z_, h_pairs, z_pairs = as_array(h), as_array(z), _pairs(h), _pairs(z)
    b = np.broadcast_to(as_array(bias), h.shape).copy()
    size, one, zero, k = np.empty_like(b), np.ones_like(b), np.zeros_like(b), np.zeros_like(z_)
    k_real = np.real(k)
    limits = np.finfo(b.dtype)
    least = np.maximum(np.abs(b) * (2 / limits.max), limits.tiny).astype(b.dtype)  # for which b / |z| is finite
    with np.errstate(all="ignore"):
        for u, row, keep in zip(as_array(us), as_array(hs), held_steps(mask, len(us)), strict=True):
            z_[...] = u
            z_pairs.addmm_(h_pairs, matrix)
            np.absolute(z_, out=size)
            np.maximum(size, least, out=size)
            np.divide(b, size, out=size)
            np.add(size, one, out=size)
            np.maximum(size, zero, out=k_real)
            if keep is None:
                np.multiply(z_, k, out=h_)
            else:
                np.copyto(h_, np.multiply(z_, k, out=z_), where=~as_array(keep))
            row[...] = h_
    return hs


def adjoint(g: Tensor, hs: Tensor, V: Tensor, bias: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the sums, of h0, and of the bias."""
    D, matrix = torch.empty_like(hs, memory_format=torch.contiguous_format), _pairs_of_product(V.conj())
    matrix[:, 1::2].neg_()  # yields the conjugate of the product
    G, later, carried = (hs.new_zeros(hs.shape[1:]) for _ in range(3))  # G and carried are conjugates
    G_, later_, G_pairs, later_pairs = as_array(G), as_array(later), _pairs(G), _pairs(later)
    dbias, held = torch.zeros_like(bias), held_steps(mask, len(hs))
    with np.errstate(all="ignore"):
        parts = pieces(hs[0], len(hs), 2)
        frames = _Frames(hs[parts[0]], bias)
        for part in reversed(parts):
            frames.set(hs[part], None if mask is None else ~mask[part])
            rows = (as_array(g[part]), as_array(D[part]), *frames.rows(part.stop - part.start), held[part])
            for g_t, row, d, stretch, r, r_pairs, keep in zip(*(x[::-1] for x in rows), strict=True):
                np.conjugate(g_t, out=G_)
                G_pairs.addmm_(later_pairs, matrix)
                if keep is not None:
                    carried = torch.where(keep, G.add_(carried), 0)
                np.multiply(G_, d, out=r)
                np.multiply(r_pairs, stretch, out=r_pairs)
                np.multiply(r, d, out=later_)
                row[...] = later_
            dbias += frames.radial(part.stop - part.start)
    return D, carried.add_(_from_pairs(later_pairs @ matrix)).conj_physical_(), dbias


class _Frames:
    """Directions and stretches of a piece of the sequence, in buffers that all pieces share and that stay in the cache.

    `|z| = |h| - b`, so that `k = |h| / (|h| - b)`.
    """

    def __init__(self, h: Tensor, bias: Tensor) -> None:
        self.bias, self.limits = bias, torch.finfo(h.dtype)
        self.size, self.k = (bias.new_empty(h.shape) for _ in range(2))
        self.inverse, self.d, self.r = (torch.zeros_like(h, memory_format=torch.contiguous_format) for _ in range(3))
        self.stretch = bias.new_ones(*h.shape[:-1], 2 * h.shape[-1])
        """1 and -k in turn: the factors of the real and of the imaginary part of conj(r)."""
        self._rows = [list(as_array(x)) for x in (self.d, self.stretch, self.r, _pairs(self.r))]

    def set(self, h: Tensor, held: Tensor | None) -> None:
        """Compute the directions and stretches of these states; steps that are held have d = 0."""
        buffers = (self.size, self.k, self.inverse, self.d, self.stretch)
        size, k, inverse, d, stretch = (buffer[: len(h)] for buffer in buffers)
        np.absolute(as_array(h), out=as_array(size))
        torch.reciprocal(torch.clamp_min(size, self.limits.tiny, out=k), out=inverse.real)
        np.multiply(as_array(h), as_array(inverse), out=as_array(d))
        torch.sub(self.bias, size, out=k).clamp_max_(-self.limits.tiny)
        torch.clamp_min(torch.div(size, k, out=k), -1 / self.limits.eps, out=stretch[..., 1::2])
        if held is not None:
            d.masked_fill_(held.unsqueeze(-1), 0)

    def rows(self, length: int) -> list[list[np.ndarray]]:
        """Return for each of so many steps d, the stretch, and a buffer for conj(r), also as pairs."""
        return [rows[:length] for rows in self._rows]

    def radial(self, length: int) -> Tensor:
        """Return the sum of the real parts of r (units) over a piece of that length, whose steps have written them."""
        return _pairs(self.r[:length]).flatten(0, 1).sum(0)[::2]


def _pairs(x: Tensor) -> Tensor:
    """Return complex numbers (..., units) as a real view (..., 2 units)."""
    return torch.view_as_real(x).flatten(-2)


def _from_pairs(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


def _pairs_of_product(matrix: Tensor) -> Tensor:
    """Return the real matrix (2 units, 2 units) by which pairs are multiplied as complex numbers are by `matrix`."""
    return _pairs(torch.stack([matrix, 1j * matrix], 1).resolve_conj()).flatten(0, 1)
