"""Alignments: how well a query matches the key of a past state, and the attention that follows, with its gradient.

A past state lies in memory as one row: its values h, its key, and a bias of its score where there is one. All rows of a
step are (slots, batch, width), slots first, as a history in time lies. What is computed here has its gradient written
beside it, so that a scan over a long sequence can compute the attention of a step again in the backward pass and need
not keep it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.memory.attention.normalisation import Softmax, TopK


class Pull(NamedTuple):
    """Gradients of one step's attention."""

    query: Float[Tensor, "batch asked"]
    rows: Float[Tensor, "slots batch width"]
    weights: tuple[Tensor, ...]
    """Of the alignment's own parameters that enter the scores, as `Alignment.shared` gives them."""


class Alignment(nn.Module):
    """Scores `e = a(query, key)` per head, shared out over all slots; the values are the past states themselves.

    Args:
        size: features N of a state.
        heads: each compares and reads its own N / heads features.
        share: what makes weights of scores.
        biased: whether each state has a number of its own that is added to its scores.

    """

    def __init__(self, size: int, heads: int = 1, share: Softmax | TopK | None = None, biased: bool = False) -> None:
        super().__init__()
        if size < 1 or heads < 1 or size % heads:
            raise ValueError(
                f"Heads divide the features of a state among them: {size} features cannot be shared by {heads} heads."
            )
        self.size, self.heads, self.biased = size, heads, biased
        self.share = Softmax() if share is None else share
        self.query: nn.Module = nn.Linear(size, size, bias=False)
        """W_a, of what asks."""
        self.key: nn.Module = nn.Linear(size, size, bias=False)
        """U_a, of a past state."""

    def row(
        self, h: Float[Tensor, "batch features"], bias: Float[Tensor, "batch 1"] | None = None
    ) -> Float[Tensor, "batch width"]:
        """What is stored of a state: its values and its key, so that each key is formed once, and its bias."""
        return torch.cat([h, self.key(h)] if bias is None else [h, self.key(h), bias], dim=-1)

    @property
    def key_size(self) -> int:
        """Numbers in a key."""
        return self.size

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return self.size + self.key_size + self.biased

    def shared(self) -> tuple[Tensor, ...]:
        """Parameters that enter the scores beside query and key."""
        return ()

    def compared(self, query: Tensor, keys: Tensor) -> Float[Tensor, "slots batch asked"]:
        """Query and keys, feature by feature."""
        raise NotImplementedError(f"{type(self).__name__} must define compared(query, keys).")

    def scores(
        self, compared: Float[Tensor, "slots batch asked"], *shared: Tensor
    ) -> Float[Tensor, "slots batch heads"]:
        """How well each key matches: sums over each head's features. `shared` is handed in, as the parameters of the
        module may be others when a gradient is computed.
        """
        return compared.unflatten(-1, (self.heads, -1)).sum(-1)

    def pull_scores(
        self, query: Tensor, keys: Tensor, compared: Tensor, grad: Float[Tensor, "slots batch heads"], *shared: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Gradients of the scores with respect to the query, the keys and the shared parameters; may use up
        `compared`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define pull_scores(query, keys, compared, grad, *shared)."
        )

    def attend(
        self,
        query: Float[Tensor, "batch asked"],
        rows: Float[Tensor, "slots batch width"],
        valid: Bool[Tensor, "slots batch"] | None,
    ) -> tuple[Float[Tensor, "batch features"], Float[Tensor, "slots batch heads"]]:
        """The context c, and the weights; differentiable, and 0 where no slot is valid."""
        values, keys, bias = self._parts(rows)
        weights = self.share(self._with(bias, self.scores(self.compared(query, keys), *self.shared())), valid)
        return self._mixed(weights, values), weights

    def pull(
        self,
        grad: Float[Tensor, "batch features"],
        query: Float[Tensor, "batch asked"],
        rows: Float[Tensor, "slots batch width"],
        valid: Bool[Tensor, "slots batch"] | None,
        shared: tuple[Tensor, ...],
    ) -> Pull:
        """Gradients of `attend`, from that of the context; all that it needs is computed again, with the parameters
        that it was computed with.
        """
        values, keys, bias = self._parts(rows)
        compared = self.compared(query, keys)
        scores = self._with(bias, self.scores(compared, *shared))
        weights = self.share(scores, valid)
        into_weights = self._by_heads(values * grad).sum(-1)
        into_values = (weights.unsqueeze(-1) * self._by_heads(grad)).flatten(-2)
        into_scores = self.share.pull(scores, weights, valid, into_weights)
        into_query, into_keys, into_shared = self.pull_scores(query, keys, compared, into_scores, *shared)
        into_rows = [into_values, into_keys] if bias is None else [into_values, into_keys, into_scores.sum(-1, True)]
        return Pull(into_query, torch.cat(into_rows, dim=-1), into_shared)

    def _parts(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        values, keys = rows[..., : self.size], rows[..., self.size : self.size + self.key_size]
        return values, keys, rows[..., -1:] if self.biased else None

    def _with(self, bias: Tensor | None, scores: Tensor) -> Tensor:
        return scores if bias is None else scores + bias

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

    def __init__(self, size: int, heads: int = 1, share: Softmax | TopK | None = None, biased: bool = False) -> None:
        super().__init__(size, heads, share, biased)
        self.direction = nn.Parameter(torch.empty(size).uniform_(-(size**-0.5), size**-0.5))
        """v_a."""

    def shared(self) -> tuple[Tensor, ...]:
        return (self.direction,)

    def compared(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.tanh(query + keys)

    def scores(self, compared: Tensor, *shared: Tensor) -> Tensor:
        (direction,) = shared
        if self.heads == 1:
            return (compared @ direction).unsqueeze(-1)
        return self._by_heads(compared * direction).sum(-1)

    def pull_scores(
        self, query: Tensor, keys: Tensor, compared: Tensor, grad: Tensor, *shared: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        (direction,), each = shared, self._each(grad)
        into_direction = (compared * each).sum((0, 1))
        slope = torch.addcmul(direction, compared.square_(), direction, value=-1)
        into_keys = slope.mul_(each)
        return into_keys.sum(0), into_keys, (into_direction,)


class ScaledDot(Alignment):
    """`e = (W_a s) . (U_a h) / sqrt(N / heads)` (Vaswani et al. 2017)."""

    def compared(self, query: Tensor, keys: Tensor) -> Tensor:
        return query * (self.size // self.heads) ** -0.5 * keys

    def pull_scores(
        self, query: Tensor, keys: Tensor, compared: Tensor, grad: Tensor, *shared: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        each = self._each(grad) * (self.size // self.heads) ** -0.5
        return (each * keys).sum(0), each * query, ()


class Separable(Alignment):
    """`e = w_q . tanh(s) + w_k . tanh(h)`, as in the code that Ke et al. (2018) released. What asks adds the same to
    all scores, so that it has no say in which of them are the largest, nor by how much.
    """

    def __init__(self, size: int, heads: int = 1, share: Softmax | TopK | None = None, biased: bool = False) -> None:
        if heads != 1:
            raise ValueError(f'The score "released" has one head, but heads is {heads}.')
        super().__init__(size, 1, share, biased)
        w_q, w_k = nn.Linear(size, 1, bias=False), nn.Linear(size, 1, bias=False)
        for w in (w_q, w_k):
            nn.init.normal_(w.weight, std=0.01)
        self.query, self.key = nn.Sequential(nn.Tanh(), w_q), nn.Sequential(nn.Tanh(), w_k)

    @property
    def key_size(self) -> int:
        return 1

    def compared(self, query: Tensor, keys: Tensor) -> Tensor:
        return query + keys

    def pull_scores(
        self, query: Tensor, keys: Tensor, compared: Tensor, grad: Tensor, *shared: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        return grad.sum(0), grad, ()
