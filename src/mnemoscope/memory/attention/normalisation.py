"""Normalisations that map scores to attention weights, each with its gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.kernels.sparse_attention_types import EPSILON as EPSILON

HeadWeights = Float[Tensor, "slots batch heads"]
Valid = Bool[Tensor, "slots batch"]
EMPTY_SCORE = -1e30
"""Score of an empty slot: so low that its weight is 0, but finite, so that a memory of empty slots gives no NaN."""


@dataclass(frozen=True)
class Softmax:
    """`a = exp(e) / sum exp(e)` over the valid slots."""

    def __call__(self, scores: HeadWeights, valid: Valid | None) -> HeadWeights:
        if valid is None:
            return scores.softmax(0)
        empty = ~valid.unsqueeze(-1)
        return scores.masked_fill(empty, EMPTY_SCORE).softmax(0).masked_fill(empty, 0.0)

    def backward(self, scores: Tensor, weights: Tensor, valid: Tensor | None, grad: Tensor) -> Tensor:
        """Return the gradient of the scores from that of the weights."""
        product = weights * grad
        return product.addcmul(weights, product.sum(0), value=-1)


@dataclass(frozen=True)
class RawScores:
    """The scores themselves, which the code of Ke et al. uses while few states are stored."""

    def __call__(self, scores: Tensor, valid: Tensor | None) -> Tensor:
        return scores if valid is None else scores.masked_fill(~valid.unsqueeze(-1), 0.0)

    def backward(self, scores: Tensor, weights: Tensor, valid: Tensor | None, grad: Tensor) -> Tensor:
        return self(grad, valid)


@dataclass(frozen=True)
class TopK:
    """`a = relu(e - threshold) / sum`: only the slots with the largest scores get attention (Ke et al. 2018).

    The threshold is the score with rank k + 1, so that k weights are positive. The released code takes the k-th largest
    score and keeps k - 1. If at most k slots are valid, `few` normalises over all of them.

    Args:
        k: number of slots that get attention.
        released: follow the released code.

    >>> TopK(2)(torch.tensor([3.0, 1.0, 2.0, 0.0]).view(4, 1, 1), None).flatten()
    tensor([0.6667, 0.0000, 0.3333, 0.0000])

    """

    k: int
    released: bool = False

    @property
    def few(self) -> Softmax | RawScores:
        return RawScores() if self.released else Softmax()

    def __call__(self, scores: HeadWeights, valid: Valid | None) -> HeadWeights:
        if len(scores) <= self.k:
            return self.few(scores, valid)
        above, _ = self._above(scores, valid)
        weights = above / (above.sum(0) + EPSILON)
        return weights if valid is None else torch.where(self._many(valid), weights, self.few(scores, valid))

    def backward(self, scores: Tensor, weights: Tensor, valid: Tensor | None, grad: Tensor) -> Tensor:
        """Return the gradient of the scores.

        For `a_i = r_i / S` it is `dr_i = (da_i - sum_j da_j a_j) / S` where r_i > 0; their sum is subtracted from the
        gradient of the threshold's score.
        """
        if len(scores) <= self.k:
            return self.few.backward(scores, weights, valid, grad)
        above, threshold = self._above(scores, valid)
        into = (grad - (grad * weights).sum(0)) / (above.sum(0) + EPSILON) * (above > 0)
        into.scatter_add_(0, threshold, -into.sum(0, keepdim=True))
        if valid is None:
            return into
        return torch.where(self._many(valid), into, self.few.backward(scores, weights, valid, grad))

    def _many(self, valid: Tensor) -> Bool[Tensor, "batch 1"]:
        return (valid.sum(0) > self.k).unsqueeze(-1)

    def _above(self, scores: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the excess of each score over the threshold, and the slot of the threshold."""
        if valid is not None:
            scores = scores.masked_fill(~valid.unsqueeze(-1), EMPTY_SCORE)
        largest = scores.topk(self.k if self.released else self.k + 1, dim=0)
        threshold = largest.values[-1:] + EPSILON if self.released else largest.values[-1:]
        return torch.relu(scores - threshold), largest.indices[-1:]
