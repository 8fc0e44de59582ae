"""Reads and writes that decay, and the products of those that meet, inside chunks of a sequence.

Step i of a chunk multiplies row d of the state by `exp(g_id)`. What step j writes along `y_j` is therefore read along
`x_i` with the weight

    P_ij = sum_d x_id exp(g_{j+1,d} + ... + g_{i,d}) y_jd,

up to g_i for a read after step i (queries), and up to g_{i-1} for a read before it (erase directions).

Decays are products of factors <= 1, or exponentials of sums of numbers <= 0, and never quotients or differences. No
factor overflows, small exponents keep their digits next to large ones, and `g = -inf` gives exact zeros, in values and
in gradients. To this end blocks of 1, 2, 4 ... steps are joined in pairs: a read in the right block and a write in the
left one meet in the middle, as the product of a read that decays from the middle and a write that decays to the middle.
Then the reads of the right block decay from the start of the pair, by one more factor for the whole left block, and the
writes of the left block to its end. If all keys share one rate, the exponents of all pairs of steps are summed instead.

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


class Blocks(NamedTuple):
    """Blocks of neighbouring steps, or the gradients of their tensors."""

    reads: Tensor
    """Reads that decay from the start of their block, (blocks, steps, kinds, keys)."""
    writes: Tensor
    """Writes that decay to the end of their block, (blocks, steps, kinds, keys)."""
    keep: Tensor
    """Factor of decay over each block, (blocks, keys or 1)."""

    def meeting(self) -> tuple[Tensor, Tensor]:
        """Return the reads of the right block of every pair, and the writes of the left one."""
        return self.reads[1::2], self.writes[0::2]

    def joined(self) -> Blocks:
        """Return blocks that are twice as long."""
        (left, right), (first, second) = (x.unflatten(0, (-1, 2)).unbind(1) for x in (self.reads, self.writes))
        keep_left, keep_right = self.keep.unflatten(0, (-1, 2)).unbind(1)
        return Blocks(
            torch.cat([left, right * keep_left[:, None, None]], 1),
            torch.cat([first * keep_right[:, None, None], second], 1),
            keep_left * keep_right,
        )


def decaying_blocks(reads: Tensor, writes: Tensor, g: Tensor) -> Iterator[Blocks]:
    """Yield blocks of 1, 2, 4 ... steps, up to whole chunks; only the chunks if one rate decays all keys."""
    if g.shape[-1] == 1:
        yield _chunks_of_one_rate(reads, writes, g)
        return
    keep = g.flatten(0, 1).exp()
    queries, *directions = reads.flatten(0, 1).split(1, 1)
    decayed = torch.cat([queries * keep.unsqueeze(1), *directions], 1)  # an erase direction reads before the decay
    blocks = Blocks(decayed.unsqueeze(1), writes.flatten(0, 1).unsqueeze(1), keep)
    yield blocks
    while len(blocks.keep) > len(g):
        blocks = blocks.joined()
        yield blocks


def decayed_products(reads: Tensor, writes: Tensor, g: Tensor) -> tuple[Tensor, Tensor | None, Blocks]:
    """Return the products, (chunks, steps, kinds of reads, steps, kinds of writes), BA in float64, and the chunks.

    BA, the products of erase directions and targets, (chunks, steps, steps), is None without erasure. It is summed in
    float64 because errors of BA multiply: those of equal keys are equal, so that they add up over the steps.
    """
    if g.shape[-1] == 1:
        return *_products_of_one_rate(reads, writes, g), _chunks_of_one_rate(reads, writes, g)
    kinds, BA = reads.shape[2], None
    products = pad(reads[:, :, :1] @ writes.mT, (0, 0, 0, kinds - 1))  # one step: b reads before the write
    if kinds == 2:
        BA = wide(g).new_zeros(*g.shape[:2], 1, 1)
    levels = decaying_blocks(reads, writes, g)
    blocks = next(levels)
    for joined in levels:
        right, left = blocks.meeting()
        products = _joined(products, times_transposed(right.flatten(1, 2), left.flatten(1, 2)))
        if BA is not None:
            BA = _joined(BA, times_transposed(wide(right[:, :, 1]), wide(left[:, :, 1])))
        blocks = joined
    return products.view(*reads.shape[:3], *writes.shape[1:3]), None if BA is None else BA.squeeze(1), blocks


def decay_backward(
    reads: Tensor,
    writes: Tensor,
    g: Tensor,
    levels: list[Blocks],
    products: Tensor,
    into: Blocks,
    into_products: Tensor,
    needs_g: bool = True,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the gradients of reads, writes and g from those of the products and of the chunks.

    `levels` are the `decaying_blocks`; `into`, the gradients of the last of them, is overwritten. Without `needs_g`,
    the gradient of g may be None.
    """
    into = into._replace(keep=into.keep * levels[-1].keep)  # the gradient of its exponent
    if g.shape[-1] == 1:
        return _one_rate_backward(reads, writes, g, products, into, into_products, needs_g)
    chunks, steps, kinds, _ = reads.shape
    into_total = into.keep
    for level in reversed(levels[:-1]):
        (right, left), (keep_left, keep_right) = level.meeting(), level.keep.view(-1, 2, g.shape[-1]).unbind(1)
        size = right.shape[1]
        into_right, into_left = _blocks(into.reads, size, 1), _blocks(into.writes, size, 0)
        into_right.mul_(keep_left[:, None, None])
        into_left.mul_(keep_right[:, None, None])
        totals = ((into_right * right).sum((1, 2)), (into_left * left).sum((1, 2)))
        into_total = (into_total.unsqueeze(1) + torch.stack(totals, 1)).flatten(0, 1)
        pairs = into_products.view(chunks, steps // size // 2, 2, size * kinds, steps // size // 2, 2, -1)
        across = pairs[:, :, 1, :, :, 0].diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2).flatten(0, 1)
        into_right += _times(across, left.flatten(1, 2)).view(right.shape)
        into_left += _times(across.mT, right.flatten(1, 2)).view(left.shape)
    into_queries = into.reads[:, :, :1].mul_(levels[0].keep.view(chunks, steps, 1, -1))
    into_g = into_total.view(g.shape) + (into_queries * reads[:, :, :1]).squeeze(2)
    own = into_products.diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2)[:, :, :1]  # (chunks, steps, 1, kinds of writes)
    into_queries += own @ writes
    return into.reads, into.writes.add_(own.mT @ reads[:, :, :1]), into_g


def wide(x: Tensor) -> Tensor:
    """Return x in float64, unless the device has none."""
    return x if x.device.type == "mps" else x.double()


def _joined(products: Tensor, across: Tensor) -> Tensor:
    """Join neighbouring blocks of products, (chunks, blocks, rows, columns), with those of the pair."""
    across = across.unflatten(0, (len(products), -1))
    above = pad(products[:, 0::2], (0, across.shape[-1]))
    return torch.cat([above, torch.cat([across, products[:, 1::2]], -1)], -2)


def _blocks(x: Tensor, size: int, which: int) -> Tensor:
    """Return a view of the left (0) or the right (1) block of each pair, (pairs of blocks, steps, ...)."""
    return x.view(-1, 2, size, *x.shape[2:])[:, which]


def times_transposed(x: Tensor, y: Tensor) -> Tensor:
    """Return `x y^T`, with a copy of `y^T`: without, OpenBLAS takes 6 to 40 times as long on ARM."""
    return (x.unsqueeze(-2) * y.unsqueeze(-3)).sum(-1) if x.shape[-2] <= FEW else x @ y.mT.contiguous()


def _times(x: Tensor, y: Tensor) -> Tensor:
    return (x.unsqueeze(-1) * y.unsqueeze(-3)).sum(-2) if x.shape[-1] <= FEW else x @ y


FEW = 4
"""Rows up to which torch multiplies many pairs of matrices faster without its matrix product."""


# --- one rate for all keys --------------------------------------------------------------------------------------------


def _products_of_one_rate(reads: Tensor, writes: Tensor, g: Tensor) -> tuple[Tensor, Tensor | None]:
    kinds, BA = reads.shape[2], None
    factors = _factors_of_pairs(g, kinds)
    products = times_transposed(reads.flatten(1, 2), writes.flatten(1, 2)).view(*reads.shape[:3], *writes.shape[1:3])
    if kinds == 2:
        BA = times_transposed(wide(reads[:, :, 1]), wide(writes[:, :, 1])) * factors[:, :, 1, :, 0]
    return products * factors, BA


def _chunks_of_one_rate(reads: Tensor, writes: Tensor, g: Tensor) -> Blocks:
    from_start, to_end = _factors_at_borders(g, reads.shape[2])
    return Blocks(reads * from_start, writes * to_end, g.sum(1).exp())


def _factors_of_pairs(g: Tensor, kinds: int) -> Tensor:
    """Return the decay from a write to a read, 0 if it is later, (chunks, steps, kinds of reads, steps, 1)."""
    steps = g.shape[1]
    below = g.new_ones(steps, steps, dtype=torch.bool).tril(-1)
    exponents = torch.where(below, g, 0).cumsum(1).exp().tril()  # of g_{j+1} + ... + g_i at (i, j)
    if kinds == 1:
        return exponents[:, :, None, :, None]
    return torch.stack([exponents, _later(exponents)], 2).unsqueeze(-1)


def _factors_at_borders(g: Tensor, kinds: int) -> tuple[Tensor, Tensor]:
    """Return the decay from the start to each read, and from each write to the end, (chunks, steps, kinds or 1, 1)."""
    after = g.cumsum(1)
    from_start = after.unsqueeze(2) if kinds == 1 else torch.stack([after, _later(after)], 2)
    return from_start.exp(), _earlier(_reverse_sums(g)).unsqueeze(2).exp()


def _one_rate_backward(
    reads: Tensor,
    writes: Tensor,
    g: Tensor,
    products: Tensor,
    into: Blocks,
    into_products: Tensor,
    needs_g: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    kinds = reads.shape[2]
    from_start, to_end = _factors_at_borders(g, kinds)
    into_reads, into_writes = into.reads.mul_(from_start), into.writes.mul_(to_end)
    into_g = None
    if needs_g:
        into_g = _spans_of_one_rate(products, into_products) + into.keep.unsqueeze(1)
        after, *before = (into_reads * reads).sum(-1).unbind(2)  # of the exponents at the borders, (chunks, steps)
        after = after + _earlier(before[0].unsqueeze(-1)).squeeze(-1) if before else after
        from_writes = _later((into_writes * writes).sum((2, 3)).cumsum(1).unsqueeze(-1))
        into_g = into_g + _reverse_sums(after).unsqueeze(-1) + from_writes
    inner = (into_products * _factors_of_pairs(g, kinds)).flatten(3, 4).flatten(1, 2)
    into_reads += (inner @ writes.flatten(1, 2)).view(reads.shape)
    into_writes += (inner.mT @ reads.flatten(1, 2)).view(writes.shape)
    return into_reads, into_writes, into_g


def _spans_of_one_rate(products: Tensor, into_products: Tensor) -> Tensor:
    """Return the gradient of g from those of the products, (chunks, steps, 1)."""
    pairs = (into_products * products).sum(-1)  # gradients of the exponents, (chunks, steps, kinds, steps)
    spans = pairs[:, :, 0]  # from a write to the step after which it is read
    if pairs.shape[2] == 2:
        spans = spans + _earlier(pairs[:, :, 1])
    later = pad(spans.cumsum(2)[:, :, :-1], (1, 0)).tril()  # at (i, t): all spans from before t to i
    return later.sum(1).unsqueeze(-1)


def _reverse_sums(x: Tensor) -> Tensor:
    """Return the sums from each step to the last."""
    return x.flip(1).cumsum(1).flip(1)


def _later(x: Tensor) -> Tensor:
    """Move every step to the next, with zeros at the first."""
    return pad(x[:, :-1], (0, 0, 1, 0))


def _earlier(x: Tensor) -> Tensor:
    """Move every step to the previous one, with zeros at the last."""
    return pad(x[:, 1:], (0, 0, 0, 1))
