"""A relation network: a function of every pair of objects, summed."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.relational.layers import layer, mlp
from mnemoscope.relational.network import Options, RelationalModel, Seen, Sized, with_places

HIDDEN, PAIR = 512, 256


class RelationNetwork(RelationalModel):
    """`f(sum_ij g([z_i; i; z_j; j]))` over all ordered pairs, i = j among them (Santoro et al. 2017, with the sizes of
    Webb et al. 2021: g 258 to 512 to 256, f 256 to 256 to the choices, ReLU after all but the last).
    """

    instead = "it has a vector for every pair of objects, and answers from the sum of all"

    def __init__(self, problem: Sized, **options: Unpack[Options]) -> None:
        super().__init__(problem, **options)
        self.first = layer(2 * (self.features + 1), HIDDEN, "relu")
        self.second = layer(HIDDEN, PAIR, "relu")
        self.out = mlp(PAIR, 256, self.choices)

    def answer(self, seen: Seen) -> Float[Tensor, "batch choices"]:
        z = with_places(seen.z)
        # the first layer of a pair is the sum of one of each object, which are far fewer than pairs
        left, right = self.first.weight.chunk(2, dim=1)
        of_pairs = (z @ left.mT + self.first.bias).unsqueeze(2) + (z @ right.mT).unsqueeze(1)
        g = torch.relu(self.second(torch.relu(of_pairs)))  # (batch, objects, objects, PAIR)
        return self.out(g.sum((1, 2)))
