"""Products of reads and writes that decay from the write to the read, inside chunks of a sequence.

Step i of a chunk multiplies row d of the state by `exp(g_id)`. What step j writes along `y_j` is therefore read along
`x_i` with the weight

    P_ij = sum_d x_id exp(g_{j+1,d} + ... + g_{i,d}) y_jd,

up to g_i for a read after step i (queries), and up to g_{i-1} for a read before it (erase directions).

Exponents are sums of numbers <= 0 and never differences of cumulated sums. No factor overflows, small exponents keep
their digits next to large ones, and `g = -inf` gives exact zeros, in values and in gradients. To this end a chunk is
halved again and again: a read in the right half and a write in the left half meet in the middle, as the product of a
read that decays from the middle and a write that decays to the middle. If all keys share one rate, the exponents of all
pairs are summed instead.

Layout: g is (chunks, steps, keys), or (chunks, steps, 1) if one rate decays all keys; reads and writes are (chunks,
steps, kinds, keys), with the kinds (query, erase direction) and (key, erase target), or only the first of each. The
number of steps is a power of 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad


class Decays(NamedTuple):
    """Logarithms of the decay between a step and the borders of its block, or their gradients."""

    to_read: Tensor
    """From the first step to a read, (blocks, steps, kinds of reads, keys or 1)."""
    from_write: Tensor
    """From a write to the last step, (blocks, steps, 1, keys or 1)."""


def block_decays(g: Tensor, kinds: int) -> Decays:
    """Return the decays inside blocks from g, (blocks, steps, keys or 1)."""
    after = g.cumsum(1)
    to_read = after.unsqueeze(2) if kinds == 1 else torch.stack([after, _later(after)], 2)
    return Decays(to_read, _earlier(_reverse_sums(g)).unsqueeze(2))


def block_decays_backward(into: Decays) -> Tensor:
    """Return the gradient of g."""
    read, write = _spread(into)
    return read + write


def _spread(into: Decays) -> tuple[Tensor, Tensor]:
    """Return the gradients of g from that of `to_read` and from that of `from_write`."""
    after, *before = into.to_read.unbind(2)
    return _reverse_sums(after + _earlier(before[0]) if before else after), _later(into.from_write.squeeze(2).cumsum(1))


def _reverse_sums(x: Tensor) -> Tensor:
    """Return the sums from each step to the last."""
    return x.flip(1).cumsum(1).flip(1)


def _later(x: Tensor) -> Tensor:
    """Move every step to the next, with zeros at the first."""
    return pad(x[:, :-1], (0, 0, 1, 0))


def _earlier(x: Tensor) -> Tensor:
    """Move every step to the previous one, with zeros at the last."""
    return pad(x[:, 1:], (0, 0, 0, 1))


def decayed_products(reads: Tensor, writes: Tensor, g: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the products, (chunks, steps, kinds of reads, steps, kinds of writes), and BA in float64.

    BA, the products of erase directions and targets, (chunks, steps, steps), is None without erasure. It is summed in
    float64 because errors of BA multiply: those of equal keys are equal, so that they add up over the steps.
    """
    kinds, BA = reads.shape[2], None
    if g.shape[-1] == 1:
        factors = _common_factors(g, kinds)
        products = times_transposed(reads.flatten(1, 2), writes.flatten(1, 2)).view(
            *reads.shape[:3], *writes.shape[1:3]
        )
        if kinds == 2:
            BA = times_transposed(wide(reads[:, :, 1]), wide(writes[:, :, 1])) * factors[:, :, 1, :, 0]
        return products * factors, BA
    products = pad(reads[:, :, :1] @ writes.mT, (0, 0, 0, kinds - 1))  # one step: b reads before the write
    if kinds == 2:
        BA = wide(g).new_zeros(*g.shape[:2], 1, 1)
    for right, left, _ in _halves(reads, writes, g):
        across = times_transposed(right.flatten(1, 2), left.flatten(1, 2))
        products = _joined(products, across)
        if BA is not None:
            BA = _joined(BA, times_transposed(wide(right[:, :, 1]), wide(left[:, :, 1])))
    return products.view(*reads.shape[:3], *writes.shape[1:3]), None if BA is None else BA.squeeze(1)


def wide(x: Tensor) -> Tensor:
    """Return x in float64, unless the device has none."""
    return x if x.device.type == "mps" else x.double()


def _joined(products: Tensor, across: Tensor) -> Tensor:
    """Join neighbouring blocks of products, (chunks, blocks, rows, columns), with those of the pair."""
    across = across.unflatten(0, (len(products), -1))
    above = pad(products[:, 0::2], (0, across.shape[-1]))
    return torch.cat([above, torch.cat([across, products[:, 1::2]], -1)], -2)


def _halves(reads: Tensor, writes: Tensor, g: Tensor) -> Iterator[tuple[Tensor, Tensor, Decays]]:
    """For blocks of 1, 2, 4 ... steps, yield the reads of every second block, decayed from its start, and the
    writes of the block before, decayed to its end; both are (pairs of blocks, steps, kinds, keys). The third item
    has the factors of decay.
    """
    size = 1
    while size < g.shape[1]:
        to_read, _ = block_decays(_blocks(g, size, 1), reads.shape[2])
        _, from_write = block_decays(_blocks(g, size, 0), 1)
        factors = Decays(to_read.exp(), from_write.exp())
        yield _blocks(reads, size, 1) * factors.to_read, _blocks(writes, size, 0) * factors.from_write, factors
        size *= 2


def _blocks(x: Tensor, size: int, which: int) -> Tensor:
    """Return the first (0) or the second (1) block of each pair, (pairs of blocks, steps, ...)."""
    return x.view(-1, 2, size, *x.shape[2:])[:, which]


def decayed_products_backward(
    reads: Tensor, writes: Tensor, g: Tensor, products: Tensor, into: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of reads, writes and g from the products and their gradient."""
    if g.shape[-1] == 1:
        return _common_backward(reads, writes, g, products, into)
    chunks, steps, kinds, _ = reads.shape
    own = into.diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2)[:, :, :1]  # (chunks, steps, 1, kinds of writes)
    into_reads = pad(own @ writes, (0, 0, 0, kinds - 1))
    into_writes, into_g = own.mT @ reads[:, :, :1], g.new_zeros(g.shape)
    for right, left, factors in _halves(reads, writes, g):
        size = right.shape[1]
        blocks = into.view(chunks, steps // size // 2, 2, size * kinds, steps // size // 2, 2, -1)
        across = blocks[:, :, 1, :, :, 0].diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2).flatten(0, 1)
        into_right = _times(across, left.flatten(1, 2)).view(right.shape)
        into_left = _times(across.mT, right.flatten(1, 2)).view(left.shape)
        _blocks(into_reads, size, 1).addcmul_(into_right, factors.to_read)
        _blocks(into_writes, size, 0).addcmul_(into_left, factors.from_write)
        borders = Decays(into_right.mul_(right), into_left.mul_(left).sum(2, True))
        second, first = _spread(borders)
        _blocks(into_g, size, 1).add_(second)
        _blocks(into_g, size, 0).add_(first)
    return into_reads, into_writes, into_g


def times_transposed(x: Tensor, y: Tensor) -> Tensor:
    """Return `x y^T`, with a copy of `y^T`: without, OpenBLAS takes 6 to 40 times as long on ARM."""
    return (x.unsqueeze(-2) * y.unsqueeze(-3)).sum(-1) if x.shape[-2] <= FEW else x @ y.mT.contiguous()


def _times(x: Tensor, y: Tensor) -> Tensor:
    return (x.unsqueeze(-1) * y.unsqueeze(-3)).sum(-2) if x.shape[-1] <= FEW else x @ y


FEW = 4
"""Rows up to which torch multiplies many pairs of matrices faster without its matrix product."""


# --- one rate for all keys --------------------------------------------------------------------------------------------


def _common_factors(g: Tensor, kinds: int) -> Tensor:
    """Return the decay from a write to a read, 0 if it is later, (chunks, steps, kinds of reads, steps, 1)."""
    steps = g.shape[1]
    below = g.new_ones(steps, steps, dtype=torch.bool).tril(-1)
    exponents = torch.where(below, g, 0).cumsum(1).exp().tril()  # of g_{j+1} + ... + g_i at (i, j)
    if kinds == 1:
        return exponents[:, :, None, :, None]
    return torch.stack([exponents, pad(exponents[:, :-1], (0, 0, 1, 0))], 2).unsqueeze(-1)


def _common_backward(
    reads: Tensor, writes: Tensor, g: Tensor, products: Tensor, into: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    kinds = reads.shape[2]
    inner = (into * _common_factors(g, kinds)).flatten(3, 4).flatten(1, 2)
    pairs = (into * products).sum(-1)  # gradients of the exponents, (chunks, steps, kinds, steps)
    spans = pairs[:, :, 0]  # from a write to the step after which it is read
    if kinds == 2:
        spans = spans + pad(pairs[:, 1:, 1], (0, 0, 0, 1))
    later = pad(spans.cumsum(2)[:, :, :-1], (1, 0)).tril()  # at (i, t): all spans from before t to i
    into_reads = (inner @ writes.flatten(1, 2)).view(reads.shape)
    into_writes = (inner.mT @ reads.flatten(1, 2)).view(writes.shape)
    return into_reads, into_writes, later.sum(1).unsqueeze(-1)
