"""How attention is shared out among the slots, by their scores; each way has its gradient beside it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float

NOTHING = -1e30
"""Score of an empty slot: so low that its weight is 0, and finite, so that nothing but empty slots gives no NaN."""
LITTLE = 1e-7
"""Added to sums that may be 0, as in the code that Ke et al. released."""


@dataclass(frozen=True)
class Softmax:
    """`a = exp(e) / sum exp(e)` over the valid slots."""

    def __call__(
        self, scores: Float[Tensor, "slots batch heads"], valid: Bool[Tensor, "slots batch"] | None
    ) -> Float[Tensor, "slots batch heads"]:
        if valid is None:
            return scores.softmax(0)
        empty = ~valid.unsqueeze(-1)
        return scores.masked_fill(empty, NOTHING).softmax(0).masked_fill(empty, 0.0)

    def pull(self, scores: Tensor, weights: Tensor, valid: Tensor | None, grad: Tensor) -> Tensor:
        """Gradient with respect to the scores, from that of the weights."""
        share = weights * grad
        return share.addcmul(weights, share.sum(0), value=-1)


@dataclass(frozen=True)
class RawScores:
    """The scores themselves: what the code of Ke et al. does while there is little to choose from."""

    def __call__(self, scores: Tensor, valid: Tensor | None) -> Tensor:
        return scores if valid is None else scores.masked_fill(~valid.unsqueeze(-1), 0.0)

    def pull(self, scores: Tensor, weights: Tensor, valid: Tensor | None, grad: Tensor) -> Tensor:
        return self(grad, valid)


@dataclass(frozen=True)
class TopK:
    """`a = relu(e - threshold) / sum`: slots but those with the largest scores get no attention (Ke et al. 2018).

    The threshold is the largest score that is left out, so that k weights stay. The released code takes the k-th
    largest: k - 1 stay. Where no more than k slots are valid, `few` shares among all of them.

    Args:
        k: how many.
        released: as in the released code.

    >>> TopK(2)(torch.tensor([3.0, 1.0, 2.0, 0.0]).view(4, 1, 1), None).flatten()
    tensor([0.6667, 0.0000, 0.3333, 0.0000])

    """

    k: int
    released: bool = False

    @property
    def few(self) -> Softmax | RawScores:
        return RawScores() if self.released else Softmax()

    def __call__(
        self, scores: Float[Tensor, "slots batch heads"], valid: Bool[Tensor, "slots batch"] | None
    ) -> Float[Tensor, "slots batch heads"]:
        if len(scores) <= self.k:
            return self.few(scores, valid)
        above, _ = self._above(scores, valid)
        weights = above / (above.sum(0) + LITTLE)
        return weights if valid is None else torch.where(self._many(valid), weights, self.few(scores, valid))

    def pull(
        self, scores: Tensor, weights: Tensor, valid: Tensor | None, grad: Float[Tensor, "slots batch heads"]
    ) -> Float[Tensor, "slots batch heads"]:
        """Of `a_i = r_i / S`: `dr_i = (da_i - sum_j da_j a_j) / S` where r_i > 0; the threshold's score loses their
        sum.
        """
        if len(scores) <= self.k:
            return self.few.pull(scores, weights, valid, grad)
        above, threshold = self._above(scores, valid)
        into = (grad - (grad * weights).sum(0)) / (above.sum(0) + LITTLE) * (above > 0)
        into.scatter_add_(0, threshold, -into.sum(0, keepdim=True))
        return (
            into if valid is None else torch.where(self._many(valid), into, self.few.pull(scores, weights, valid, grad))
        )

    def _many(self, valid: Tensor) -> Bool[Tensor, "batch 1"]:
        return (valid.sum(0) > self.k).unsqueeze(-1)

    def _above(self, scores: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        """What of each score is above the threshold, and at which slot that is."""
        if valid is not None:
            scores = scores.masked_fill(~valid.unsqueeze(-1), NOTHING)
        largest = scores.topk(self.k if self.released else self.k + 1, dim=0)
        threshold = largest.values[-1:] + LITTLE if self.released else largest.values[-1:]
        return torch.relu(scores - threshold), largest.indices[-1:]
