"""Where the heads of a tape look, in preallocated buffers, and the gradients of that (Graves et al. 2014, section 3.3).

A memory is (batch, numbers, slots) here: sums over slots and over numbers then run along what lies side by side.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float

TINY = 1e-8
"""Length below which a slot or a key counts as short: its cosine with anything goes to 0. Far below that of a slot of
the initial 1e-6."""
FLOOR = 1e-30
"""Weights below this count as this where they are sharpened, so that their logarithms are finite."""

_softmax_backward = torch._softmax_backward_data  # pyright: ignore[reportPrivateImportUsage]


_Parts = TypeVar("_Parts", "Told", "Looks", "Slopes")


def at_each(parts: _Parts) -> list[_Parts]:
    """Views of the single steps."""
    return [type(parts)(*each) for each in zip(*(part.unbind() for part in parts), strict=True)]


class Told(NamedTuple):
    """What some heads are told at a step, or at all of them; each with the heads behind time and batch."""

    key: Float[Tensor, "*steps batch heads numbers"]
    over_key: Float[Tensor, "*steps batch heads 1"]
    """One over the length of the key."""
    strength: Float[Tensor, "*steps batch heads 1"]
    gate: Float[Tensor, "*steps batch heads 1"]
    shift: Float[Tensor, "*steps batch heads moves"]
    """The furthest move on comes first."""
    gamma: Float[Tensor, "*steps batch heads 1"]


class Looks(NamedTuple):
    """What heads saw at a step, or at all of them, kept for the backward pass."""

    alike: Float[Tensor, "*steps batch heads slots"]
    """Products of key and slot over the length of the slot."""
    content: Float[Tensor, "*steps batch heads slots"]
    around: Float[Tensor, "*steps batch heads ring"]
    """Weights by content and from before, mixed; the ends are repeated, as slots lie on a ring."""
    shifted: Float[Tensor, "*steps batch heads slots"]
    """At least FLOOR."""
    logs: Float[Tensor, "*steps batch heads slots"]

    @classmethod
    def empty(cls, like: Tensor, shape: tuple[int, ...], reach: int) -> Looks:
        """Buffers for (time, batch, heads, slots)."""
        *outer, slots = shape
        sizes = (slots, slots, slots + 2 * reach, slots, slots)
        return cls(*(like.new_empty(*outer, size) for size in sizes))


class Ring:
    """A buffer for numbers on a ring, whose ends are repeated; with views that are made once for all steps, as each
    costs as much as a small operation.
    """

    def __init__(self, around: Float[Tensor, "batch heads ring"], slots: int) -> None:
        self.around = around = torch.empty_like(around)
        reach = (around.shape[-1] - slots) // 2
        self.inner = around[..., reach : reach + slots]
        """Without the ends."""
        self.windows = [around[..., k : k + slots] for k in range(2 * reach + 1)]
        """One for each move."""
        self.low, self.high = around[..., :reach], around[..., reach + slots :]
        self.of_low, self.of_high = around[..., slots : slots + reach], around[..., reach : 2 * reach]

    def close(self) -> None:
        """Repeat both ends."""
        self.low.copy_(self.of_low)
        self.high.copy_(self.of_high)


class Pulled(NamedTuple):
    """Gradients that a look hands on."""

    before: Float[Tensor, "batch heads slots"]
    """Of the weights before."""
    key: Float[Tensor, "batch heads numbers"]
    alike: Float[Tensor, "batch heads slots"]
    """Of the products of keys and slots: what is added to the memory's is `key^T alike - radial memory`."""
    radial: Float[Tensor, "batch 1 slots"]


class Products:
    """Products of vectors and weights with a memory, in one buffer: a new one each time would cost as much as they do.

    Of single heads they are taken number by number, as products of matrices are slow where a library has none for
    batches of vectors.
    """

    def __init__(self, memory: Float[Tensor, "batch numbers slots"]) -> None:
        self.buffer = torch.empty_like(memory, memory_format=torch.contiguous_format)
        self.one_by_one = not (memory.is_cuda or torch.backends.mkl.is_available())

    def over_lengths(self, memory: Tensor, out: Float[Tensor, "batch 1 slots"]) -> None:
        """One over the length of each slot."""
        torch.mul(memory, memory, out=self.buffer)
        torch.sum(self.buffer, 1, keepdim=True, out=out).add_(TINY**2).rsqrt_()

    def dots(self, vectors: Float[Tensor, "batch heads numbers"], memory: Tensor) -> Float[Tensor, "batch heads slots"]:
        """With every slot."""
        if vectors.shape[1] == 1 and self.one_by_one:
            return torch.mul(memory, vectors.mT, out=self.buffer).sum(1, keepdim=True)
        return torch.bmm(vectors, memory)

    def means(
        self, weights: Float[Tensor, "batch heads slots"], memory: Tensor
    ) -> Float[Tensor, "batch heads numbers"]:
        """Weighted sums over the slots."""
        if weights.shape[1] == 1 and self.one_by_one:
            return torch.mul(memory, weights, out=self.buffer).sum(-1).unsqueeze(1)
        return torch.bmm(weights, memory.mT)

    def add_outer(
        self,
        memory: Float[Tensor, "batch numbers slots"],
        vectors: Float[Tensor, "batch heads numbers"],
        weights: Float[Tensor, "batch heads slots"],
    ) -> None:
        """Add each head's vector to all slots by its weights, in place."""
        if vectors.shape[1] == 1 and self.one_by_one:
            memory.addcmul_(vectors.mT, weights)
        else:
            memory.baddbmm_(vectors.mT, weights)


def look(
    products: Products,
    memory: Tensor,
    over_length: Tensor,
    before: Float[Tensor, "batch heads slots"],
    told: Told,
    seen: Looks,
    ring: Ring,
    weights: Float[Tensor, "batch heads slots"],
) -> None:
    """Write the weights, and what led to them into `seen`; `ring` is to work in."""
    torch.mul(products.dots(told.key, memory), over_length, out=seen.alike)
    torch.softmax(seen.alike * (told.strength * told.over_key), -1, out=seen.content)
    torch.lerp(before, seen.content, told.gate, out=ring.inner)
    ring.close()
    seen.around.copy_(ring.around)
    _turn(ring, told.shift, seen.shifted)
    torch.log(seen.shifted.clamp_min_(FLOOR), out=seen.logs)
    torch.softmax(told.gamma * seen.logs, -1, out=weights)


def _turn(ring: Ring, shares: Float[Tensor, "batch heads moves"], out: Float[Tensor, "batch heads slots"]) -> Tensor:
    """Sum over the moves of share times window; move by move, since a product with all windows at once takes several
    times as long.
    """
    first, *others = torch.unsafe_split(shares, 1, -1)  # a quicker one than Tensor.split
    torch.mul(ring.windows[0], first, out=out)
    for window, share in zip(ring.windows[1:], others, strict=True):
        out.addcmul_(window, share)
    return out


class Slopes(NamedTuple):
    """What the gradients of all looks need that waits for nothing, formed for all steps at once."""

    logs: Float[Tensor, "*steps batch heads slots"]
    """Of `gamma log w` in the shifted weights w; 0 where w is below FLOOR."""
    gate: Float[Tensor, "*steps batch heads slots"]
    """Of the mixed weights in the gate."""
    back: Float[Tensor, "*steps batch heads moves"]
    """The shift in reverse."""
    alike: Float[Tensor, "*steps batch heads slots"]
    """Of `beta K` in the product of a key and a slot."""
    radial: Float[Tensor, "*steps batch heads slots"]
    """Of how `beta K` falls with the length of a slot, per `alike` and number of the slot."""
    key: Float[Tensor, "*steps batch heads numbers"]
    """Of how `beta K` falls with the length of the key."""

    @classmethod
    def of(cls, told: Told, seen: Looks, before: Tensor, over_length: Tensor) -> Slopes:
        """From what the heads were told and saw at all steps."""
        scale = told.strength * told.over_key
        alike = scale * over_length
        return cls(
            told.gamma / seen.shifted * (seen.shifted > FLOOR),
            seen.content - before,
            told.shift.flip(-1),
            alike,
            alike * over_length,
            told.key * (told.over_key.square() * told.strength),
        )


def pull_look(
    products: Products,
    g: Float[Tensor, "batch heads slots"],
    memory: Tensor,
    weights: Tensor,
    told: Told,
    seen: Looks,
    slope: Slopes,
    ring: Ring,
    into: Told,
) -> Pulled:
    """From the gradient of the weights to those of all that led to them.

    `ring` is to work in. `into` gets those of what the heads were told; its `over_key` is not written, as the key's own
    holds it.
    """
    dtype = g.dtype
    g = _softmax_backward(g, weights, -1, dtype)
    torch.sum(g * seen.logs, -1, keepdim=True, out=into.gamma)
    g = g * slope.logs
    ring.around.copy_(seen.around)
    for window, of_share in zip(ring.windows, into.shift.unbind(-1), strict=True):
        torch.sum(g * window, -1, out=of_share)
    ring.inner.copy_(g)
    ring.close()
    g = _turn(ring, slope.back, torch.empty_like(weights))  # the moves in reverse
    torch.sum(g * slope.gate, -1, keepdim=True, out=into.gate)
    of_content = g * told.gate
    of_before = g - of_content
    g = _softmax_backward(of_content, seen.content, -1, dtype)
    together = g * seen.alike
    torch.mul(together.sum(-1, keepdim=True), told.over_key, out=into.strength)
    g = g * slope.alike
    torch.addcmul(products.means(g, memory), slope.key, into.strength, value=-1, out=into.key)
    radial = together * slope.radial
    return Pulled(of_before, told.key, g, radial if radial.shape[1] == 1 else radial.sum(1, keepdim=True))
