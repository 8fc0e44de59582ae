"""A transformer that reads the objects themselves."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from mnemoscope.relational.layers import mlp
from mnemoscope.relational.network import Options, RelationalModel, Seen, Sized
from mnemoscope.shapes import Float


class Transformer(RelationalModel):
    """One layer of self-attention with 8 heads and 512 hidden units, each half added and then normalised; the mean over
    objects answers by a hidden layer of 256 (Vaswani et al. 2017, with the sizes of Webb et al. 2021).

    To the objects come sines of their places; behind the layer is one more normalisation; nothing is dropped out.
    """

    places: Tensor

    def __init__(self, problem: Sized, **options: Unpack[Options]) -> None:
        super().__init__(problem, **options)
        self.register_buffer("places", sines(self.objects, self.features), persistent=False)
        self.layer = nn.TransformerEncoderLayer(self.features, nhead=8, dim_feedforward=512, dropout=0.0,
                                                batch_first=True)  # fmt: skip
        self.last = nn.LayerNorm(self.features)
        self.out = mlp(self.features, 256, self.choices)
        for name, weight in self.layer.named_parameters():
            if "bias" in name:
                nn.init.zeros_(weight)
            elif "norm" not in name:
                (nn.init.kaiming_normal_ if "linear" in name else nn.init.xavier_normal_)(weight)

    def answer(self, seen: Seen) -> Float[Tensor, "batch choices"]:
        return self.out(self.last(self.layer(seen.z + self.places)).mean(1))


def sines(places: int, features: int) -> Float[Tensor, "places features"]:
    """`sin(t / 10000^(2i/d))` and, beside it, the cosine (Vaswani et al. 2017, section 3.5).

    >>> sines(2, 4).round(decimals=3)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8410, 0.5400, 0.0100, 1.0000]])
    """
    rate = 10000.0 ** (-torch.arange(0, features, 2) / features)
    angle = torch.arange(places).unsqueeze(1) * rate
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)[:, :features]
