"""Addressing of the memory: the four steps of Graves et al. (2014), section 3.3.

Powers underflow if a head is sharply focused: w^gamma is 0 for all but a few slots, and the gradient of a power of 0 is
NaN. So sharpening uses logarithms, `softmax(gamma log w)`, of weights clamped to at least `FLOOR`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.tape_addressing import FLOOR, TINY

Memory = Float[Tensor, "batch slots numbers"]
HeadWeights = Float[Tensor, "batch heads slots"]
PerHead = Float[Tensor, "batch heads 1"]


def content_weights(memory: Memory, key: Float[Tensor, "batch heads key_numbers"], strength: PerHead) -> HeadWeights:
    """Return `softmax_i(beta K[k, M(i)])` with the cosine similarity K (Graves et al., Eq 5-6).

    For matrices the cosine uses the Frobenius inner product, the same sum over all numbers of a slot.

    >>> memory = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]])
    >>> content_weights(memory, torch.tensor([[[0.0, 1.0]]]), torch.full((1, 1, 1), 50.0)).round(decimals=3)
    tensor([[[0., 1.]]])
    """
    if key.shape[-1] != memory.shape[-1]:
        raise ValueError(
            f"A key is compared with slots and must have as many numbers, but keys have {key.shape[-1]} and slots "
            f"{memory.shape[-1]}."
        )
    check_digits(memory)
    dot = key @ memory.mT  # (batch, heads, slots)
    cosine = dot * _inverse_length(key) * _inverse_length(memory).mT
    return torch.softmax(strength * cosine, dim=-1)


def interpolate(content: HeadWeights, previous: HeadWeights, gate: PerHead) -> HeadWeights:
    """Return `g w_c + (1 - g) w_previous` (Graves et al., Eq 7)."""
    return previous + gate * (content - previous)  # not lerp, whose arguments have several dtypes under autocast


def shift_weights(weights: HeadWeights, shift: Float[Tensor, "batch heads shifts"]) -> HeadWeights:
    """Return `sum_o s(o) w(i - o)`, with i - o modulo the number of slots (Graves et al., Eq 8).

    The offsets o are -reach, ..., reach: the first entry of `shift` moves furthest back.

    >>> at_first = torch.tensor([[[1.0, 0.0, 0.0, 0.0]]])
    >>> shift_weights(at_first, torch.tensor([[[0.0, 0.25, 0.75]]]))
    tensor([[[0.2500, 0.7500, 0.0000, 0.0000]]])
    """
    moves = shift.shape[-1]
    check_reach(weights.shape[-1], moves)
    reach = moves // 2
    moved = torch.stack([weights.roll(move, -1) for move in range(-reach, reach + 1)], dim=-2)
    return (moved * shift.unsqueeze(-1)).sum(-2)


def sharpen(weights: HeadWeights, gamma: PerHead) -> HeadWeights:
    """Return `w^gamma / sum w^gamma` (Graves et al., Eq 9), with weights clamped to at least `FLOOR`."""
    check_digits(weights)
    return torch.softmax(gamma * weights.clamp(min=FLOOR).log(), dim=-1)


def check_digits(numbers: Tensor) -> None:
    """Raise if the dtype rounds `FLOOR` and `TINY` to 0."""
    if numbers.dtype == torch.float16:
        raise ValueError(
            "A tape needs numbers and weights that float16 rounds to 0; use float32, float64 or bfloat16, or float32 "
            "under torch.autocast."
        )


def check_reach(slots: int, moves: int) -> None:
    """Raise unless the offsets are symmetric and lead to distinct slots."""
    if moves % 2 == 0 or moves > slots:
        raise ValueError(
            f"A head moves by -reach, ..., reach slots, an odd number of moves and at most as many as there are slots, "
            f"but there are {moves} moves and {slots} slots; take a smaller reach or more slots."
        )


def _inverse_length(vectors: Tensor) -> Tensor:
    """Return the inverse length of each vector, smooth at 0."""
    return torch.rsqrt((vectors * vectors).sum(-1, keepdim=True) + TINY**2)
