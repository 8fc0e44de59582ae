"""The Abstractor: attention between objects that mixes symbols, which carry no features of the objects."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.relational.decoders import by_head
from mnemoscope.relational.layers import layer, mlp
from mnemoscope.relational.network import EncodedObjects, Logits, ModelOptions, Objects, ProblemLike, Relations
from mnemoscope.relational.similarity_model import Scores, SimilarityModel, numbered_names


class Abstractor(SimilarityModel):
    """Relational cross-attention (Altabaa et al. 2024): weights from objects, values from symbols.

    There is a learned symbol for each position, the rows of S. Each head has `R = softmax(W_Q z (W_K z)^T / sqrt(d))`.
    A layer adds `W_O [R_h W_V A]_h` to A, which starts as S, and normalises; then follow a residual feed-forward block
    and another normalisation. So features of objects reach the answer only through R. The final A at all positions
    gives the answer through a hidden layer of 256. This model is not in the thesis.

    Args:
        heads: relations per layer; a divisor of the 128 features.
        layers: number of layers.
        shared: take W_K = W_Q, so that scores are symmetric and an object is similar to itself; False learns them
            separately, as first published.

    """

    def __init__(
        self,
        problem: ProblemLike,
        *,
        heads: int = 8,
        layers: int = 1,
        shared: bool = True,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(problem, **options)
        check_whole(1, heads=heads, layers=layers)
        if self.features % heads:
            raise ValueError(f"Heads share {self.features} features evenly, but there are {heads}; take a divisor.")
        self.symbols = nn.Parameter(torch.randn(self.objects, self.features))
        self.layers = nn.ModuleList(RelationalAttention(self.features, heads, shared) for _ in range(layers))
        self.out = mlp(self.objects * self.features, 256, self.choices)

    def scores(self, encoded: EncodedObjects) -> Scores:
        """Return the scores of all heads, layer by layer."""
        scores = torch.cat([attention.scores(encoded.z) for attention in self._attention()], 1)
        return Scores.all_used(scores, self.relation_names)

    def decide(self, relations: Relations, z: Objects | None) -> Logits:
        abstract = self.symbols.expand(len(relations), -1, -1)
        by_layer = relations.chunk(len(self.layers), dim=1)
        for attention, matrices in zip(self._attention(), by_layer, strict=True):
            abstract = attention(matrices, abstract)
        return self.out(abstract.flatten(1))

    @property
    def relation_names(self) -> tuple[str, ...]:
        heads = numbered_names("head", self._attention()[0].heads)
        layers = numbered_names("layer", len(self.layers))
        return tuple(" ".join(filter(None, (layer, head))) for layer in layers for head in heads)

    def _attention(self) -> list[RelationalAttention]:
        return [layer for layer in self.layers if isinstance(layer, RelationalAttention)]


class RelationalAttention(nn.Module):
    """One layer of an `Abstractor`."""

    def __init__(self, features: int, heads: int, shared: bool) -> None:
        super().__init__()
        self.heads = heads
        self.queries = layer(features, features, bias=False)
        self.keys = self.queries if shared else layer(features, features, bias=False)
        self.values = layer(features, features, bias=False)
        self.found = layer(features, features)
        self.norms = nn.ModuleList([nn.LayerNorm(features), nn.LayerNorm(features)])
        self.feed_forward = mlp(features, 2 * features, features)

    def scores(self, z: Objects) -> Float[Tensor, "batch heads objects objects"]:
        """Return the scores of each head; their softmax gives the relations."""
        q, k = by_head(self.queries(z), self.heads), by_head(self.keys(z), self.heads)
        return q @ k.mT * q.shape[-1] ** -0.5

    def forward(self, relations: Float[Tensor, "batch heads objects objects"], abstract: Objects) -> Objects:
        mixed = relations @ by_head(self.values(abstract), self.heads)
        after, last = self.norms
        abstract = after(abstract + self.found(mixed.transpose(1, 2).flatten(2)))
        return last(abstract + self.feed_forward(abstract))
