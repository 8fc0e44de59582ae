"""A transformer encoder over the objects."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mnemoscope.base.array_types import Float
from mnemoscope.relational.decoders import by_head
from mnemoscope.relational.layers import mlp
from mnemoscope.relational.network import EncodedObjects, Logits, ModelOptions, Objects, ProblemLike, Relations
from mnemoscope.relational.similarity_model import Scores, SimilarityModel, numbered_names

HEADS = 8
"""Number of attention heads."""


class Transformer(SimilarityModel):
    """One post-norm transformer layer (Vaswani et al. 2017, with the sizes of Webb et al. 2021).

    The layer has 8 heads, 512 hidden units and no dropout. Sinusoidal position codes are added to the objects. A final
    normalisation and the mean over objects give the answer through a hidden layer of 256.

    The attention weights of the heads are its relations; they mix the objects themselves.
    """

    positions: Tensor
    sensory = True

    def __init__(self, problem: ProblemLike, **options: Unpack[ModelOptions]) -> None:
        super().__init__(problem, **options)
        self.register_buffer("positions", sinusoidal_encoding(self.objects, self.features), persistent=False)
        self.layer = nn.TransformerEncoderLayer(
            self.features, nhead=HEADS, dim_feedforward=512, dropout=0.0, batch_first=True
        )
        self.last = nn.LayerNorm(self.features)
        self.out = mlp(self.features, 256, self.choices)
        for name, weight in self.layer.named_parameters():
            if "bias" in name:
                nn.init.zeros_(weight)
            elif "norm" not in name:
                (nn.init.kaiming_normal_ if "linear" in name else nn.init.xavier_normal_)(weight)

    def scores(self, encoded: EncodedObjects) -> Scores:
        queries, keys, _ = self._projected(encoded.z + self.positions)
        return Scores.all_used(queries @ keys.mT * queries.shape[-1] ** -0.5, self.relation_names)

    def decide(self, relations: Relations, z: Objects | None) -> Logits:
        assert z is not None, "A transformer mixes the objects, and so needs z."
        layer, x = self.layer, z + self.positions
        mixed = (relations @ self._projected(x)[2]).transpose(1, 2).flatten(2)
        x = layer.norm1(x + layer.self_attn.out_proj(mixed))
        x = layer.norm2(x + layer.linear2(torch.relu(layer.linear1(x))))
        return self.out(self.last(x).mean(1))

    def answer(self, encoded: EncodedObjects) -> Logits:
        # the same as `decide`, with torch's faster layer
        return self.out(self.last(self.layer(encoded.z + self.positions)).mean(1))

    @property
    def relation_names(self) -> tuple[str, ...]:
        return numbered_names("head", HEADS)

    def _projected(self, x: Tensor) -> list[Tensor]:
        """Return the queries, keys and values of the heads."""
        attention = self.layer.self_attn
        projected = linear(x, attention.in_proj_weight, attention.in_proj_bias)
        return [by_head(part, HEADS) for part in projected.chunk(3, dim=2)]


def sinusoidal_encoding(positions: int, features: int) -> Float[Tensor, "positions features"]:
    """Return `sin(t / 10000^(2i/d))` alternating with the cosine (Vaswani et al. 2017, section 3.5).

    >>> sinusoidal_encoding(2, 4).round(decimals=3)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8410, 0.5400, 0.0100, 1.0000]])
    """
    rate = 10000.0 ** (-torch.arange(0, features, 2) / features)
    angle = torch.arange(positions).unsqueeze(1) * rate
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)[:, :features]
