"""The Abstractor: attention among objects that moves symbols, which know nothing of them."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from mnemoscope.relational.decoders import by_head
from mnemoscope.relational.layers import layer, mlp
from mnemoscope.relational.network import Options, RelationalModel, Seen, Sized
from mnemoscope.shapes import Float
from mnemoscope.whole import check_whole


class Abstractor(RelationalModel):
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

    def answer(self, seen: Seen) -> Float[Tensor, "batch choices"]:
        abstract = self.symbols.expand(len(seen.z), -1, -1)
        for each in self.layers:
            abstract = each(seen.z, abstract)
        return self.out(abstract.flatten(1))


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

    def relations(self, z: Float[Tensor, "batch objects features"]) -> Float[Tensor, "batch heads objects objects"]:
        """Of each head."""
        q, k = by_head(self.queries(z), self.heads), by_head(self.keys(z), self.heads)
        return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)

    def forward(
        self, z: Float[Tensor, "batch objects features"], abstract: Float[Tensor, "batch objects features"]
    ) -> Float[Tensor, "batch objects features"]:
        moved = self.relations(z) @ by_head(self.values(abstract), self.heads)
        after, last = self.norms
        abstract = after(abstract + self.found(moved.transpose(1, 2).flatten(2)))
        return last(abstract + self.feed_forward(abstract))
