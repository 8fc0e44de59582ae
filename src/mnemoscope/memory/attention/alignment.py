"""Alignments: how well a query matches the key of a past state, and the attention that follows, with its gradient.

A past state lies in memory as one row: its values h, and its key. All rows of a step are (slots, batch, width), slots
first, as a history in time lies. What is computed here has its gradient written beside it, so that a scan over a long
sequence can compute the attention of a step again in the backward pass and need not keep it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.shapes import Bool, Float

NOTHING = -1e30
"""Score of an empty slot: so low that its weight is 0, and finite, so that nothing but empty slots gives no NaN."""


class Pull(NamedTuple):
    """Gradients of one step's attention."""

    query: Float[Tensor, "batch features"]
    rows: Float[Tensor, "slots batch width"]
    weights: tuple[Tensor, ...]
    """Of the alignment's own parameters that enter the scores, as `Alignment.shared` gives them."""


class Alignment(nn.Module):
    """Scores `e = a(query, key)` per head; softmax over all slots; the values are the past states themselves.

    Args:
        size: features N of a state.
        heads: each compares and reads its own N / heads features.

    """

    def __init__(self, size: int, heads: int = 1) -> None:
        super().__init__()
        if size < 1 or heads < 1 or size % heads:
            raise ValueError(
                f"Heads divide the features of a state among them: {size} features cannot be shared by {heads} heads."
            )
        self.size, self.heads = size, heads
        self.query = nn.Linear(size, size, bias=False)
        """W_a, of the macro-state."""
        self.key = nn.Linear(size, size, bias=False)
        """U_a, of a past state."""

    def row(self, h: Float[Tensor, "batch features"]) -> Float[Tensor, "batch width"]:
        """What is stored of a state: its values and its key, so that each key is formed once."""
        return torch.cat([h, self.key(h)], dim=-1)

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return 2 * self.size

    def shared(self) -> tuple[Tensor, ...]:
        """Parameters that enter the scores beside query and key."""
        return ()

    def compared(self, query: Tensor, keys: Tensor) -> Float[Tensor, "slots batch features"]:
        """Query and keys, feature by feature."""
        raise NotImplementedError(f"{type(self).__name__} must define compared(query, keys).")

    def scores(self, compared: Float[Tensor, "slots batch features"]) -> Float[Tensor, "slots batch heads"]:
        """How well each key matches: sums over each head's features."""
        return compared.unflatten(-1, (self.heads, -1)).sum(-1)

    def pull_scores(
        self, query: Tensor, keys: Tensor, compared: Tensor, grad: Float[Tensor, "slots batch heads"]
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Gradients of the scores with respect to the query, the keys and the shared parameters; may use up
        `compared`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define pull_scores(query, keys, compared, grad).")

    def weights(
        self, scores: Float[Tensor, "slots batch heads"], valid: Bool[Tensor, "slots batch"] | None
    ) -> Float[Tensor, "slots batch heads"]:
        """Softmax over the valid slots."""
        if valid is None:
            return scores.softmax(0)
        empty = ~valid.unsqueeze(-1)
        return scores.masked_fill(empty, NOTHING).softmax(0).masked_fill(empty, 0.0)

    def pull_weights(self, weights: Tensor, grad: Tensor) -> Float[Tensor, "slots batch heads"]:
        """Gradient of the weights with respect to the scores."""
        share = weights * grad
        return share.addcmul(weights, share.sum(0), value=-1)

    def attend(
        self,
        query: Float[Tensor, "batch features"],
        rows: Float[Tensor, "slots batch width"],
        valid: Bool[Tensor, "slots batch"] | None,
    ) -> tuple[Float[Tensor, "batch features"], Float[Tensor, "slots batch heads"]]:
        """The context c, and the weights; differentiable, and 0 where no slot is valid."""
        values, keys = self._parts(rows)
        weights = self.weights(self.scores(self.compared(query, keys)), valid)
        return self._mixed(weights, values), weights

    def pull(
        self,
        grad: Float[Tensor, "batch features"],
        query: Float[Tensor, "batch features"],
        rows: Float[Tensor, "slots batch width"],
        valid: Bool[Tensor, "slots batch"] | None,
    ) -> Pull:
        """Gradients of `attend`, from that of the context; all that it needs is computed again."""
        values, keys = self._parts(rows)
        compared = self.compared(query, keys)
        weights = self.weights(self.scores(compared), valid)
        into_weights = self._by_heads(values * grad).sum(-1)
        into_values = (weights.unsqueeze(-1) * self._by_heads(grad)).flatten(-2)
        into_query, into_keys, into_shared = self.pull_scores(
            query, keys, compared, self.pull_weights(weights, into_weights)
        )
        return Pull(into_query, torch.cat([into_values, into_keys], dim=-1), into_shared)

    def _parts(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return rows[..., : self.size], rows[..., self.size :]

    def _by_heads(self, features: Tensor) -> Tensor:
        return features.unflatten(-1, (self.heads, -1))

    def _each(self, heads: Tensor) -> Tensor:
        """A number per head for each of its features; one head's number suits all."""
        return heads if self.heads == 1 else heads.repeat_interleave(self.size // self.heads, dim=-1)

    def _mixed(self, weights: Tensor, values: Tensor) -> Tensor:
        if self.heads == 1:
            return (weights * values).sum(0)  # a product of matrices would first copy the values
        return (weights.unsqueeze(-1) * self._by_heads(values)).sum(0).flatten(-2)


class Additive(Alignment):
    """`e = v_a . tanh(W_a s + U_a h)` (Bahdanau et al. 2015; Kerg, section 4.4)."""

    def __init__(self, size: int, heads: int = 1) -> None:
        super().__init__(size, heads)
        self.direction = nn.Parameter(torch.empty(size).uniform_(-(size**-0.5), size**-0.5))
        """v_a."""

    def shared(self) -> tuple[Tensor, ...]:
        return (self.direction,)

    def compared(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.tanh(query + keys)

    def scores(self, compared: Tensor) -> Tensor:
        if self.heads == 1:
            return (compared @ self.direction).unsqueeze(-1)
        return self._by_heads(compared * self.direction).sum(-1)

    def pull_scores(
        self, query: Tensor, keys: Tensor, compared: Tensor, grad: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        each = self._each(grad)
        into_direction = (compared * each).sum((0, 1))
        slope = torch.addcmul(self.direction, compared.square_(), self.direction, value=-1)
        into_keys = slope.mul_(each)
        return into_keys.sum(0), into_keys, (into_direction,)


class ScaledDot(Alignment):
    """`e = (W_a s) . (U_a h) / sqrt(N / heads)` (Vaswani et al. 2017)."""

    def compared(self, query: Tensor, keys: Tensor) -> Tensor:
        return query * (self.size // self.heads) ** -0.5 * keys

    def pull_scores(
        self, query: Tensor, keys: Tensor, compared: Tensor, grad: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        each = self._each(grad) * (self.size // self.heads) ** -0.5
        return (each * keys).sum(0), each * query, ()
