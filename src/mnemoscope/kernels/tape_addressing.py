"""Addressing by the heads of a tape in preallocated buffers, with its gradients (Graves et al. 2014, section 3.3).

The memory is (batch, numbers, slots), so that sums over slots and over numbers run along contiguous dimensions.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float

TINY = 1e-8
"""Length below which the cosine of a slot or key with any vector goes to 0; far below that of the initial slots (1e-6
per number)."""
FLOOR = 1e-30
"""Smallest weight before sharpening, so that logarithms are finite."""

softmax_backward = torch._softmax_backward_data  # pyright: ignore[reportPrivateImportUsage]

Memory = Float[Tensor, "batch numbers slots"]
Vectors = Float[Tensor, "batch heads numbers"]
HeadWeights = Float[Tensor, "batch heads slots"]
_Parts = TypeVar("_Parts", "HeadParameters", "AddressingTrace", "Slopes")


def unbind_steps(parts: _Parts) -> list[_Parts]:
    """Return views of the single steps."""
    return [type(parts)(*each) for each in zip(*(part.unbind() for part in parts), strict=True)]


class HeadParameters(NamedTuple):
    """Addressing parameters of some heads, at one step or at all steps."""

    key: Float[Tensor, "*steps batch heads numbers"]
    inverse_key_length: Float[Tensor, "*steps batch heads 1"]
    """Inverse length of the key."""
    strength: Float[Tensor, "*steps batch heads 1"]
    gate: Float[Tensor, "*steps batch heads 1"]
    shift: Float[Tensor, "*steps batch heads moves"]
    """Shift weights; the largest offset comes first."""
    gamma: Float[Tensor, "*steps batch heads 1"]


class AddressingTrace(NamedTuple):
    """Intermediate results of the addressing, at one step or at all steps, for the backward pass."""

    similarity: Float[Tensor, "*steps batch heads slots"]
    """Inner products of key and slot, divided by the length of the slot."""
    content: Float[Tensor, "*steps batch heads slots"]
    padded: Float[Tensor, "*steps batch heads ring"]
    """Interpolated weights, padded at both ends as on a ring."""
    shifted: Float[Tensor, "*steps batch heads slots"]
    """Weights after the shift, at least FLOOR."""
    logs: Float[Tensor, "*steps batch heads slots"]

    @classmethod
    def empty(cls, like: Tensor, shape: tuple[int, ...], reach: int) -> AddressingTrace:
        """Return buffers for (time, batch, heads, slots)."""
        *outer, slots = shape
        sizes = (slots, slots, slots + 2 * reach, slots, slots)
        return cls(*(like.new_empty(*outer, size) for size in sizes))


class RingBuffer:
    """Buffer for weights on a ring, padded with copies of its ends.

    Its views are created once for all steps, because a view costs as much as a small operation.
    """

    def __init__(self, padded: Float[Tensor, "batch heads ring"], slots: int) -> None:
        self.padded = padded = torch.empty_like(padded)
        reach = (padded.shape[-1] - slots) // 2
        self.inner = padded[..., reach : reach + slots]
        """The weights without the padding."""
        self.windows = [padded[..., k : k + slots] for k in range(2 * reach + 1)]
        """One view for each offset."""
        self.low, self.high = padded[..., :reach], padded[..., reach + slots :]
        self.of_low, self.of_high = padded[..., slots : slots + reach], padded[..., reach : 2 * reach]

    def close(self) -> None:
        """Copy both ends to the padding."""
        self.low.copy_(self.of_low)
        self.high.copy_(self.of_high)


class AddressingGradients(NamedTuple):
    """Gradients of the addressing of one step."""

    before: HeadWeights
    """Gradient of the previous weights."""
    key: Vectors
    similarity: HeadWeights
    """Gradient of the inner products of key and slot; that of the memory is `key^T similarity - radial memory`."""
    radial: Float[Tensor, "batch 1 slots"]


class Products:
    """Products of vectors and weights with a memory, in one preallocated buffer.

    For a single head they are elementwise products and sums, if the library has no fast batched product of vectors.
    """

    def __init__(self, memory: Memory) -> None:
        self.buffer = torch.empty_like(memory, memory_format=torch.contiguous_format)
        self.elementwise = not (memory.is_cuda or torch.backends.mkl.is_available())

    def inverse_lengths(self, memory: Tensor, out: Float[Tensor, "batch 1 slots"]) -> None:
        """Write the inverse length of each slot to `out`."""
        torch.mul(memory, memory, out=self.buffer)
        torch.sum(self.buffer, 1, keepdim=True, out=out).add_(TINY**2).rsqrt_()

    def dots(self, vectors: Vectors, memory: Memory) -> HeadWeights:
        """Return the inner products with every slot."""
        if vectors.shape[1] == 1 and self.elementwise:
            return torch.mul(memory, vectors.mT, out=self.buffer).sum(1, keepdim=True)
        return torch.bmm(vectors, memory)

    def means(self, weights: HeadWeights, memory: Memory) -> Vectors:
        """Return the weighted sums over the slots."""
        if weights.shape[1] == 1 and self.elementwise:
            return torch.mul(memory, weights, out=self.buffer).sum(-1).unsqueeze(1)
        return torch.bmm(weights, memory.mT)

    def add_outer(self, memory: Memory, vectors: Vectors, weights: HeadWeights) -> None:
        """Add each head's vector to all slots, scaled by its weights, in place."""
        if vectors.shape[1] == 1 and self.elementwise:
            memory.addcmul_(vectors.mT, weights)
        else:
            memory.baddbmm_(vectors.mT, weights)


def _convolve(ring: RingBuffer, shares: Float[Tensor, "batch heads moves"], out: HeadWeights) -> Tensor:
    """Write the circular convolution of weights and shift to `out`.

    It adds one offset at a time, because a product with all windows takes several times as long.
    """
    first, *others = torch.unsafe_split(shares, 1, -1)  # faster than Tensor.split
    torch.mul(ring.windows[0], first, out=out)
    for window, share in zip(ring.windows[1:], others, strict=True):
        out.addcmul_(window, share)
    return out


class Slopes(NamedTuple):
    """Factors of the gradients that depend on the forward pass only, for all steps."""

    logs: Float[Tensor, "*steps batch heads slots"]
    """Derivative of `gamma log w` for the shifted weights w; 0 where w is below FLOOR."""
    gate: Float[Tensor, "*steps batch heads slots"]
    """Derivative of the interpolated weights for the gate."""
    back: Float[Tensor, "*steps batch heads moves"]
    """The shift weights in reverse order."""
    similarity: Float[Tensor, "*steps batch heads slots"]
    """Derivative of `beta K` for the inner product of key and slot."""
    radial: Float[Tensor, "*steps batch heads slots"]
    """Decrease of `beta K` with the length of a slot, per `similarity` and number of the slot."""
    key: Float[Tensor, "*steps batch heads numbers"]
    """Decrease of `beta K` with the length of the key."""

    @classmethod
    def of(cls, parameters: HeadParameters, trace: AddressingTrace, before: Tensor, inverse_length: Tensor) -> Slopes:
        """Compute the factors from the parameters and intermediate results of all steps."""
        scale = parameters.strength * parameters.inverse_key_length
        similarity = scale * inverse_length
        return cls(
            parameters.gamma / trace.shifted * (trace.shifted > FLOOR),
            trace.content - before,
            parameters.shift.flip(-1),
            similarity,
            similarity * inverse_length,
            parameters.key * (parameters.inverse_key_length.square() * parameters.strength),
        )


class Addressing:
    """Addressing by the write heads or by the read heads, with the parameters, weights and buffers of all steps."""

    def __init__(
        self,
        products: Products,
        parameters: HeadParameters,
        weights: Float[Tensor, "places batch heads slots"],
        trace: AddressingTrace,
    ) -> None:
        self.products, self.weights = products, weights.unbind()
        self.parameters, self.traces = unbind_steps(parameters), unbind_steps(trace)
        self.ring = RingBuffer(trace.padded[0], weights.shape[-1])
        """Work space."""

    def address(self, t: int, memory: Memory, inverse_length: Tensor) -> None:
        """Write the weights of step t, and intermediate results to its trace."""
        parameters, trace, ring = self.parameters[t], self.traces[t], self.ring
        torch.mul(self.products.dots(parameters.key, memory), inverse_length, out=trace.similarity)
        torch.softmax(trace.similarity * (parameters.strength * parameters.inverse_key_length), -1, out=trace.content)
        torch.lerp(self.weights[t], trace.content, parameters.gate, out=ring.inner)
        ring.close()
        trace.padded.copy_(ring.padded)
        _convolve(ring, parameters.shift, trace.shifted)
        torch.log(trace.shifted.clamp_min_(FLOOR), out=trace.logs)
        torch.softmax(parameters.gamma * trace.logs, -1, out=self.weights[t + 1])


class AddressingBackward(Addressing):
    """The backward pass of the addressing.

    `into` receives the gradients of the parameters, except for `inverse_key_length`, which is part of the gradient of
    the key.
    """

    def __init__(
        self,
        products: Products,
        parameters: HeadParameters,
        weights: Tensor,
        trace: AddressingTrace,
        inverse_length: Float[Tensor, "steps batch 1 slots"],
        into: HeadParameters,
    ) -> None:
        super().__init__(products, parameters, weights, trace)
        self.slopes = unbind_steps(Slopes.of(parameters, trace, weights[:-1], inverse_length))
        self.into = unbind_steps(into)

    def pull(self, t: int, g: HeadWeights, memory: Memory) -> AddressingGradients:
        """Return the gradients of the addressing of step t from that of its weights."""
        parameters, trace, slope, into = self.parameters[t], self.traces[t], self.slopes[t], self.into[t]
        ring, weights, dtype = self.ring, self.weights[t + 1], g.dtype
        g = softmax_backward(g, weights, -1, dtype)
        torch.sum(g * trace.logs, -1, keepdim=True, out=into.gamma)
        g = g * slope.logs
        ring.padded.copy_(trace.padded)
        for window, grad_shift in zip(ring.windows, into.shift.unbind(-1), strict=True):
            torch.sum(g * window, -1, out=grad_shift)
        ring.inner.copy_(g)
        ring.close()
        g = _convolve(ring, slope.back, torch.empty_like(weights))  # the offsets in reverse order
        torch.sum(g * slope.gate, -1, keepdim=True, out=into.gate)
        grad_content = g * parameters.gate
        grad_previous = g - grad_content
        g = softmax_backward(grad_content, trace.content, -1, dtype)
        together = g * trace.similarity
        torch.mul(together.sum(-1, keepdim=True), parameters.inverse_key_length, out=into.strength)
        g = g * slope.similarity
        torch.addcmul(self.products.means(g, memory), slope.key, into.strength, value=-1, out=into.key)
        radial = together * slope.radial
        radial = radial if radial.shape[1] == 1 else radial.sum(1, keepdim=True)
        return AddressingGradients(grad_previous, parameters.key, g, radial)
