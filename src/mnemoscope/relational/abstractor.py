"""The Abstractor: attention among objects that moves symbols, which know nothing of them."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.base.validation import check_whole
from mnemoscope.relational.comparing import Comparing, Scores, numbered
from mnemoscope.relational.decoders import by_head
from mnemoscope.relational.layers import layer, mlp
from mnemoscope.relational.network import Options, Seen, Sized


class Abstractor(Comparing):
    """Relational cross-attention (Altabaa et al. 2024): relations of objects, and values of symbols.

    With learned symbols S, one for each place, and for each head `R = softmax(W_Q z (W_K z)^T / sqrt(d))`, a layer adds
    `W_O [R_h W_V A]_h` to A, at first S, normalises, adds what two linear maps with a ReLU make of that, and normalises
    again. So no feature of an object reaches the answer but through R. What is left at all places answers by a hidden
    layer of 256. This is beyond the thesis.

    Args:
        problem: the task, or its sizes.
        heads: relations of a layer; they divide the 128 features.
        layers: one after the other.
        shared: take W_K = W_Q, so that relations are symmetric before the softmax and an object is like itself; with
            False they are learned apart, as first published.
        options: `segmented`, `trained_encoder` and `l1`, as for every `RelationalModel`.

    """

    def __init__(
        self, problem: Sized, *, heads: int = 8, layers: int = 1, shared: bool = True, **options: Unpack[Options]
    ) -> None:
        super().__init__(problem, **options)
        check_whole(1, heads=heads, layers=layers)
        if self.features % heads:
            raise ValueError(f"Heads share {self.features} features evenly, but there are {heads}; take a divisor.")
        self.symbols = nn.Parameter(torch.randn(self.objects, self.features))
        self.layers = nn.ModuleList(RelationalAttention(self.features, heads, shared) for _ in range(layers))
        self.out = mlp(self.objects * self.features, 256, self.choices)

    def scores(self, seen: Seen) -> Scores:
        scores = torch.cat([each.scores(seen.z) for each in self._attention()], 1)
        return Scores(scores, self.relation_names, scores.new_ones(scores.shape[:2], dtype=torch.bool))

    def compare(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        """Of all heads of the first layer, then of the next."""
        return self.scores(seen).matrices.softmax(-1)

    def decide(
        self,
        relations: Float[Tensor, "batch relations objects objects"],
        z: Float[Tensor, "batch objects features"] | None,
    ) -> Float[Tensor, "batch choices"]:
        abstract = self.symbols.expand(len(relations), -1, -1)
        for each, own in zip(self._attention(), relations.chunk(len(self.layers), dim=1), strict=True):
            abstract = each(own, abstract)
        return self.out(abstract.flatten(1))

    @property
    def read(self) -> Bool[Tensor, "objects objects"]:
        return torch.ones(self.objects, self.objects, dtype=torch.bool)

    @property
    def relation_names(self) -> tuple[str, ...]:
        heads = numbered("head", self._attention()[0].heads)
        layers = numbered("layer", len(self.layers))
        return tuple(" ".join(filter(None, (layer, head))) for layer in layers for head in heads)

    def _attention(self) -> list[RelationalAttention]:
        return [each for each in self.layers if isinstance(each, RelationalAttention)]


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

    def scores(self, z: Float[Tensor, "batch objects features"]) -> Float[Tensor, "batch heads objects objects"]:
        """Of each head: their softmax are its relations."""
        q, k = by_head(self.queries(z), self.heads), by_head(self.keys(z), self.heads)
        return q @ k.mT * q.shape[-1] ** -0.5

    def forward(
        self,
        relations: Float[Tensor, "batch heads objects objects"],
        abstract: Float[Tensor, "batch objects features"],
    ) -> Float[Tensor, "batch objects features"]:
        moved = relations @ by_head(self.values(abstract), self.heads)
        after, last = self.norms
        abstract = after(abstract + self.found(moved.transpose(1, 2).flatten(2)))
        return last(abstract + self.feed_forward(abstract))
