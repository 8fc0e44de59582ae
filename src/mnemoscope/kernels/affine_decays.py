"""Products of reads and writes that decay from the write to the read, inside chunks of a sequence.

Step i of a chunk multiplies row d of the state by `exp(g_id)`. What step j writes along `y_j` is therefore read along
`x_i` with the weight

    P_ij = sum_d x_id exp(g_{j+1,d} + ... + g_{i,d}) y_jd,

up to g_i for a read after step i (queries), and up to g_{i-1} for a read before it (erase directions).

Exponents are sums of numbers <= 0 and never differences of cumulated sums. No factor overflows, small exponents keep
their digits next to large ones, and `g = -inf` gives exact zeros, in values and in gradients. To this end a chunk is
halved again and again: a read in the right half and a write in the left half meet in the middle, as the product of a
read that decays from the middle and a write that decays to the middle.

Layout: g is (chunks, steps, keys), or (chunks, steps, 1) where one rate decays all keys; reads and writes are (chunks,
steps, kinds, keys), with the kinds (query, erase direction) and (key, erase target), or only the first of each. The
number of steps is a power of 2.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad


class Decays(NamedTuple):
    """Logarithms of the decay between a step and the borders of its chunk."""

    to_read: Tensor
    """From the first step to a read, (chunks, steps, kinds of reads, keys or 1)."""
    from_write: Tensor
    """From a write to the last step, (chunks, steps, 1, keys or 1)."""
    total: Tensor
    """Over the chunk, (chunks, keys or 1)."""


def decayed_products(reads: Tensor, writes: Tensor, g: Tensor) -> tuple[Tensor, Decays]:
    """Return the products (chunks, steps, kinds of reads, steps, kinds of writes), and the decays to the borders."""
    return _common(reads, writes, g) if g.shape[-1] == 1 else _by_key(reads, writes, g)


def _by_key(reads: Tensor, writes: Tensor, g: Tensor) -> tuple[Tensor, Decays]:
    chunks, steps, kinds, keys = reads.shape
    products = _own_step(reads, writes)
    decays = _single_steps(g, kinds)
    size = 1
    while size < steps:
        blocks = (chunks, steps // size // 2, 2, size, -1, keys)
        right = reads.reshape(blocks)[:, :, 1] * decays.to_read.reshape(blocks)[:, :, 1].exp()
        left = writes.reshape(blocks)[:, :, 0] * decays.from_write.reshape(blocks)[:, :, 0].exp()
        across = right.flatten(2, 3) @ left.flatten(2, 3).mT  # (chunks, pairs of blocks, size kinds, size kinds)
        products = torch.cat(
            [pad(products[:, 0::2], (0, across.shape[-1])), torch.cat([across, products[:, 1::2]], -1)], -2
        )
        decays = _merged(decays, size)
        size *= 2
    return products.reshape(chunks, steps, kinds, steps, -1), decays._replace(total=decays.total.squeeze(1))


def _own_step(reads: Tensor, writes: Tensor) -> Tensor:
    """Return the products of reads and writes of the same step, (chunks, steps, kinds, kinds): b reads before it."""
    after = reads[:, :, :1] @ writes.mT
    return pad(after, (0, 0, 0, reads.shape[2] - 1))


def _single_steps(g: Tensor, kinds: int) -> Decays:
    """Return the decays of blocks of one step; `total` has one row per block."""
    after = g.unsqueeze(2)
    zero = torch.zeros_like(after)
    return Decays(after if kinds == 1 else torch.cat([after, zero], 2), zero, g)


def _merged(decays: Decays, size: int) -> Decays:
    """Join neighbouring blocks of that size."""
    to_read, from_write, total = decays
    chunks, steps, _, keys = to_read.shape
    blocks = (chunks, steps // size // 2, 2, size, -1, keys)
    left, right = total[:, 0::2], total[:, 1::2]
    read, write = to_read.reshape(blocks), from_write.reshape(blocks)
    later = torch.stack([read[:, :, 0], read[:, :, 1] + left[:, :, None, None]], 2)
    earlier = torch.stack([write[:, :, 0] + right[:, :, None, None], write[:, :, 1]], 2)
    return Decays(later.reshape(to_read.shape), earlier.reshape(from_write.shape), left + right)


def _common(reads: Tensor, writes: Tensor, g: Tensor) -> tuple[Tensor, Decays]:
    chunks, steps, kinds, _ = reads.shape
    after = _segment_sums(g.squeeze(-1))  # (chunks, steps, steps)
    both = after.unsqueeze(2) if kinds == 1 else torch.stack([after, pad(after[:, :-1], (0, 0, 1, 0))], 2)
    read, write = torch.arange(steps, device=g.device)[:, None, None], torch.arange(steps, device=g.device)
    seen = write <= read - torch.arange(kinds, device=g.device)[:, None]  # (steps, kinds, steps)
    products = reads.flatten(1, 2) @ writes.flatten(1, 2).mT
    products = products.view(chunks, steps, kinds, steps, -1) * torch.where(seen, both.exp(), 0).unsqueeze(-1)
    to_read = both[..., :1] + torch.where(read >= torch.arange(kinds, device=g.device)[:, None], g[:, :1, None], 0)
    total = after[:, -1, :1] + g[:, 0]
    return products, Decays(to_read, after[:, -1, :, None, None], total)


def _segment_sums(g: Tensor) -> Tensor:
    """Return `g_{j+1} + ... + g_i` at (i, j), and 0 above the diagonal."""
    steps = g.shape[-1]
    below = torch.ones(steps, steps, dtype=torch.bool, device=g.device).tril(-1)
    return torch.where(below, g.unsqueeze(-1), 0).cumsum(-2)
