"""Where a head looks: the four steps of Graves et al. (2014), section 3.3, on logarithms of weights.

A weight that underflows is 0, its logarithm -inf, and the gradient of that NaN. Here no weight is formed before all
steps are done: products are sums, and sums are log-sum-exps, whose slopes lie between 0 and 1. Logarithms stay finite
too: that of a weight by content is at least `-2 beta - log N`, the gate adds `log g` to it, a shift is a mean, which
is no less than its least part, and sharpening multiplies by gamma and then takes off at most log N:

    log w >= gamma (log g - 2 beta - log N) - log N,

whatever the weights were before. `log g` is taken of the gate's logit, and so is finite where g itself rounds to 0.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, logsigmoid

from mnemoscope.shapes import Float

TINY = 1e-8
"""Length below which a slot or a key counts as short: its cosine with anything goes to 0. Far below that of a slot of
the initial 1e-6."""


def by_content(
    memory: Float[Tensor, "batch slots numbers"],
    key: Float[Tensor, "batch heads key_numbers"],
    strength: Float[Tensor, "batch heads 1"],
) -> Float[Tensor, "batch heads slots"]:
    """`log softmax_i(beta K[k, M(i)])` with the cosine as K (Graves et al., Eq 5-6); of matrices that of Frobenius, the
    same sum over all numbers of a slot.

    >>> memory = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]])
    >>> by_content(memory, torch.tensor([[[0.0, 1.0]]]), torch.full((1, 1, 1), 50.0)).exp().round(decimals=3)
    tensor([[[0., 1.]]])
    """
    if key.shape[-1] != memory.shape[-1]:
        raise ValueError(
            f"A key is compared with slots and must have as many numbers, but keys have {key.shape[-1]} and slots "
            f"{memory.shape[-1]}."
        )
    alike = key @ memory.mT  # (batch, heads, slots)
    cosine = alike * _over_length(key) * _over_length(memory).mT
    return log_softmax(strength * cosine, dim=-1)


def interpolated(
    log_content: Float[Tensor, "batch heads slots"],
    log_before: Float[Tensor, "batch heads slots"],
    gate: Float[Tensor, "batch heads 1"],
) -> Float[Tensor, "batch heads slots"]:
    """`log(g w_c + (1 - g) w_before)` (Graves et al., Eq 7); `gate` is the logit of g."""
    return torch.logaddexp(logsigmoid(gate) + log_content, logsigmoid(-gate) + log_before)


def shifted(
    log_weights: Float[Tensor, "batch heads slots"], log_shift: Float[Tensor, "batch heads shifts"]
) -> Float[Tensor, "batch heads slots"]:
    """`log sum_o s(o) w(i - o)`, i - o modulo the number of slots (Graves et al., Eq 8).

    The moves o are -reach, ..., reach: the first of `log_shift` is that furthest back.

    >>> at_first = torch.tensor([[[0.0, -50.0, -50.0, -50.0]]])
    >>> shifted(at_first, torch.tensor([[[-50.0, -50.0, 0.0]]])).exp().round(decimals=3)
    tensor([[[0., 1., 0., 0.]]])
    """
    moves = log_shift.shape[-1]
    check_reach(log_weights.shape[-1], moves)
    reach = moves // 2
    moved = torch.stack([log_weights.roll(move, -1) for move in range(-reach, reach + 1)], dim=-2)
    return torch.logsumexp(moved + log_shift.unsqueeze(-1), dim=-2)


def sharpened(
    log_weights: Float[Tensor, "batch heads slots"], gamma: Float[Tensor, "batch heads 1"]
) -> Float[Tensor, "batch heads slots"]:
    """`log(w^gamma / sum w^gamma)` (Graves et al., Eq 9)."""
    return log_softmax(gamma * log_weights, dim=-1)


def check_reach(slots: int, moves: int) -> None:
    """Raise unless a head that makes so many different moves stays on distinct slots of the memory."""
    if moves % 2 == 0 or moves > slots:
        raise ValueError(
            f"A head moves by -reach, ..., reach slots, an odd number of moves and at most as many as there are slots, "
            f"but there are {moves} moves and {slots} slots; take a smaller reach or more slots."
        )


def _over_length(vectors: Tensor) -> Tensor:
    """One over the length of each, smooth at 0."""
    return torch.rsqrt((vectors * vectors).sum(-1, keepdim=True) + TINY**2)
