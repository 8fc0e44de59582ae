"""Alignments: the match between a query and the key of a past state, and the resulting attention, with its gradient.

The memory stores a past state as a row: its values h, its key, and possibly a bias of its score. The rows of a step are
(slots, batch, width), in the layout of a history (time first). Gradients are written out, so that a scan over a long
sequence can recompute the attention of a step in the backward pass instead of storing it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.memory.attention.normalisation import HeadWeights, Softmax, TopK, Valid

Features = Float[Tensor, "batch features"]
Query = Float[Tensor, "batch query"]
Rows = Float[Tensor, "slots batch width"]
Normalise = Softmax | TopK
"""Maps scores to weights."""


class AttentionGradients(NamedTuple):
    """Gradients of one step's attention."""

    query: Query
    rows: Rows
    weights: tuple[Tensor, ...]
    """Gradients of the parameters `Alignment.score_parameters`."""


class Alignment(nn.Module):
    """Scores `e = a(query, key)` per head, normalised over the slots; the values are the past states.

    A state has `size` features N; each head compares and reads N / heads of them. If `biased`, each state has a bias
    that is added to its scores.
    """

    def __init__(self, size: int, heads: int = 1, normalise: Normalise | None = None, biased: bool = False) -> None:
        super().__init__()
        if size < 1 or heads < 1 or size % heads:
            raise ValueError(f"The {size} features of a state cannot be shared by {heads} heads: they do not divide.")
        self.size, self.heads, self.biased = size, heads, biased
        self.normalise = Softmax() if normalise is None else normalise
        self.query: nn.Module = nn.Linear(size, size, bias=False)
        """W_a, maps the state that attends to a query."""
        self.key: nn.Module = nn.Linear(size, size, bias=False)
        """U_a, maps a past state to its key."""

    def row(self, h: Features, bias: Float[Tensor, "batch 1"] | None = None) -> Float[Tensor, "batch width"]:
        """Return the row of a state: its values, its key, so that each key is computed once, and its bias."""
        return torch.cat([h, self.key(h)] if bias is None else [h, self.key(h), bias], dim=-1)

    @property
    def key_size(self) -> int:
        """Length of a key."""
        return self.size

    @property
    def width(self) -> int:
        """Length of a row."""
        return self.size + self.key_size + self.biased

    def score_parameters(self) -> tuple[Tensor, ...]:
        """Return the parameters of the scores, apart from those of query and key."""
        return ()

    def compared(self, query: Tensor, keys: Tensor) -> Float[Tensor, "slots batch query"]:
        """Combine query and keys feature by feature."""
        raise NotImplementedError(f"{type(self).__name__} must define compared(query, keys).")

    def scores(self, compared: Float[Tensor, "slots batch query"], *parameters: Tensor) -> HeadWeights:
        """Return the scores: sums over the features of each head.

        The `parameters` are arguments because those of the module may have changed when a gradient is computed.
        """
        return compared.unflatten(-1, (self.heads, -1)).sum(-1)

    def backward_scores(
        self, query: Tensor, keys: Tensor, compared: Tensor, grad: HeadWeights, *parameters: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Return the gradients of the scores for the query, the keys and the parameters; may overwrite `compared`."""
        raise NotImplementedError(f"{type(self).__name__} must define backward_scores, the gradient of its scores.")

    def attend(self, query: Query, rows: Rows, valid: Valid | None) -> tuple[Features, HeadWeights]:
        """Return the context c and the weights; differentiable, and 0 where no slot is valid."""
        values, keys, bias = self._parts(rows)
        scores = self.scores(self.compared(query, keys), *self.score_parameters())
        weights = self.normalise(self._add_bias(bias, scores), valid)
        return self._weighted_sum(weights, values), weights

    def backward(
        self, grad: Features, query: Query, rows: Rows, valid: Valid | None, parameters: tuple[Tensor, ...]
    ) -> AttentionGradients:
        """Return the gradients of `attend` from that of the context; recomputes the scores with `parameters`."""
        values, keys, bias = self._parts(rows)
        compared = self.compared(query, keys)
        scores = self._add_bias(bias, self.scores(compared, *parameters))
        weights = self.normalise(scores, valid)
        into_weights = self._by_heads(values * grad).sum(-1)
        into_values = (weights.unsqueeze(-1) * self._by_heads(grad)).flatten(-2)
        into_scores = self.normalise.backward(scores, weights, valid, into_weights)
        into_query, into_keys, into_parameters = self.backward_scores(query, keys, compared, into_scores, *parameters)
        into_rows = [into_values, into_keys] if bias is None else [into_values, into_keys, into_scores.sum(-1, True)]
        return AttentionGradients(into_query, torch.cat(into_rows, dim=-1), into_parameters)

    def _parts(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        values, keys = rows[..., : self.size], rows[..., self.size : self.size + self.key_size]
        return values, keys, rows[..., -1:] if self.biased else None

    def _add_bias(self, bias: Tensor | None, scores: Tensor) -> Tensor:
        return scores if bias is None else scores + bias

    def _by_heads(self, features: Tensor) -> Tensor:
        return features.unflatten(-1, (self.heads, -1))

    def _per_feature(self, heads: Tensor) -> Tensor:
        """Repeat one number per head for each of its features; one head broadcasts."""
        return heads if self.heads == 1 else heads.repeat_interleave(self.size // self.heads, dim=-1)

    def _weighted_sum(self, weights: Tensor, values: Tensor) -> Tensor:
        if self.heads == 1:
            return (weights * values).sum(0)  # a matrix product would copy the values first
        return (weights.unsqueeze(-1) * self._by_heads(values)).sum(0).flatten(-2)


class Additive(Alignment):
    """`e = v_a . tanh(W_a s + U_a h)` (Bahdanau et al. 2015; Kerg, section 4.4)."""

    def __init__(self, size: int, heads: int = 1, normalise: Normalise | None = None, biased: bool = False) -> None:
        super().__init__(size, heads, normalise, biased)
        self.direction = nn.Parameter(torch.empty(size).uniform_(-(size**-0.5), size**-0.5))
        """v_a."""

    def score_parameters(self) -> tuple[Tensor, ...]:
        return (self.direction,)

    def compared(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.tanh(query + keys)

    def scores(self, compared: Tensor, *parameters: Tensor) -> Tensor:
        (direction,) = parameters
        if self.heads == 1:
            return (compared @ direction).unsqueeze(-1)
        return self._by_heads(compared * direction).sum(-1)

    def backward_scores(
        self, query: Tensor, keys: Tensor, compared: Tensor, grad: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        (direction,), per_feature = parameters, self._per_feature(grad)
        into_direction = (compared * per_feature).sum((0, 1))
        slope = torch.addcmul(direction, compared.square_(), direction, value=-1)
        into_keys = slope.mul_(per_feature)
        return into_keys.sum(0), into_keys, (into_direction,)


class ScaledDot(Alignment):
    """`e = (W_a s) . (U_a h) / sqrt(N / heads)` (Vaswani et al. 2017)."""

    def compared(self, query: Tensor, keys: Tensor) -> Tensor:
        return query * (self.size // self.heads) ** -0.5 * keys

    def backward_scores(
        self, query: Tensor, keys: Tensor, compared: Tensor, grad: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        per_feature = self._per_feature(grad) * (self.size // self.heads) ** -0.5
        return (per_feature * keys).sum(0), per_feature * query, ()


class Separable(Alignment):
    """`e = w_q . tanh(s) + w_k . tanh(h)`, as in the code released by Ke et al. (2018).

    The query adds the same number to all scores, so that it does not influence their order or their differences.
    """

    def __init__(self, size: int, heads: int = 1, normalise: Normalise | None = None, biased: bool = False) -> None:
        if heads != 1:
            raise ValueError(f'The score "released" has one head, but heads is {heads}.')
        super().__init__(size, 1, normalise, biased)
        w_q, w_k = nn.Linear(size, 1, bias=False), nn.Linear(size, 1, bias=False)
        for w in (w_q, w_k):
            nn.init.normal_(w.weight, std=0.01)
        self.query, self.key = nn.Sequential(nn.Tanh(), w_q), nn.Sequential(nn.Tanh(), w_k)

    @property
    def key_size(self) -> int:
        return 1

    def compared(self, query: Tensor, keys: Tensor) -> Tensor:
        return query + keys

    def backward_scores(
        self, query: Tensor, keys: Tensor, compared: Tensor, grad: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        return grad.sum(0), grad, ()
