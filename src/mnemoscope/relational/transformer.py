"""A transformer that reads the objects themselves."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.relational.comparing import Comparing, Scores, numbered
from mnemoscope.relational.decoders import by_head
from mnemoscope.relational.layers import mlp
from mnemoscope.relational.network import Options, Seen, Sized

HEADS = 8


class Transformer(Comparing):
    """One layer of self-attention with 8 heads and 512 hidden units, each half added and then normalised; the mean over
    objects answers by a hidden layer of 256 (Vaswani et al. 2017, with the sizes of Webb et al. 2021).

    To the objects come sines of their places; behind the layer is one more normalisation; nothing is dropped out.

    The attention of its heads are its relations, but what they move are the objects themselves.
    """

    places: Tensor
    sensory = True

    def __init__(self, problem: Sized, **options: Unpack[Options]) -> None:
        super().__init__(problem, **options)
        self.register_buffer("places", sines(self.objects, self.features), persistent=False)
        self.layer = nn.TransformerEncoderLayer(self.features, nhead=HEADS, dim_feedforward=512, dropout=0.0,
                                                batch_first=True)  # fmt: skip
        self.last = nn.LayerNorm(self.features)
        self.out = mlp(self.features, 256, self.choices)
        for name, weight in self.layer.named_parameters():
            if "bias" in name:
                nn.init.zeros_(weight)
            elif "norm" not in name:
                (nn.init.kaiming_normal_ if "linear" in name else nn.init.xavier_normal_)(weight)

    def scores(self, seen: Seen) -> Scores:
        queries, keys, _ = self._projected(seen.z + self.places)
        scores = queries @ keys.mT * queries.shape[-1] ** -0.5
        return Scores(scores, self.relation_names, scores.new_ones(scores.shape[:2], dtype=torch.bool))

    def compare(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        return self.scores(seen).matrices.softmax(-1)

    def decide(
        self,
        relations: Float[Tensor, "batch relations objects objects"],
        z: Float[Tensor, "batch objects features"] | None,
    ) -> Float[Tensor, "batch choices"]:
        assert z is not None, "A transformer moves the objects themselves."
        layer, x = self.layer, z + self.places
        moved = (relations @ self._projected(x)[2]).transpose(1, 2).flatten(2)
        x = layer.norm1(x + layer.self_attn.out_proj(moved))
        x = layer.norm2(x + layer.linear2(torch.relu(layer.linear1(x))))
        return self.out(self.last(x).mean(1))

    def answer(self, seen: Seen) -> Float[Tensor, "batch choices"]:
        return self.out(self.last(self.layer(seen.z + self.places)).mean(1))  # as `decide`, by torch's faster way

    @property
    def read(self) -> Bool[Tensor, "objects objects"]:
        return torch.ones(self.objects, self.objects, dtype=torch.bool)

    @property
    def relation_names(self) -> tuple[str, ...]:
        return numbered("head", HEADS)

    def _projected(self, x: Tensor) -> list[Tensor]:
        """Queries, keys and values of the heads."""
        attention = self.layer.self_attn
        together = linear(x, attention.in_proj_weight, attention.in_proj_bias)
        return [by_head(part, HEADS) for part in together.chunk(3, dim=2)]


def sines(places: int, features: int) -> Float[Tensor, "places features"]:
    """`sin(t / 10000^(2i/d))` and, beside it, the cosine (Vaswani et al. 2017, section 3.5).

    >>> sines(2, 4).round(decimals=3)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8410, 0.5400, 0.0100, 1.0000]])
    """
    rate = 10000.0 ** (-torch.arange(0, features, 2) / features)
    angle = torch.arange(places).unsqueeze(1) * rate
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)[:, :features]
