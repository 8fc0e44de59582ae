"""The relation network: the sum of a function over all pairs of objects."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.relational.layers import layer, mlp
from mnemoscope.relational.network import EncodedObjects, ModelOptions, ProblemLike, RelationalModel, with_positions

HIDDEN, PAIR = 512, 256
"""Units of the hidden layer of g, and length of its output."""


class RelationNetwork(RelationalModel):
    """`f(sum_ij g([z_i; i; z_j; j]))` over all ordered pairs, including i = j (Santoro et al. 2017).

    The sizes are those of Webb et al. (2021): g maps 258 to 512 to 256 and f maps 256 to 256 to the choices, with a
    ReLU after each layer but the last.
    """

    mechanism = "it computes a vector for every pair of objects, and answers from their sum"

    def __init__(self, problem: ProblemLike, **options: Unpack[ModelOptions]) -> None:
        super().__init__(problem, **options)
        self.first = layer(2 * (self.features + 1), HIDDEN, "relu")
        self.second = layer(HIDDEN, PAIR, "relu")
        self.out = mlp(PAIR, 256, self.choices)

    def answer(self, encoded: EncodedObjects) -> Float[Tensor, "batch choices"]:
        z = with_positions(encoded.z)
        # the first layer is a sum over the two objects of a pair; there are far fewer objects than pairs
        left, right = self.first.weight.chunk(2, dim=1)
        pairs = (z @ left.mT + self.first.bias).unsqueeze(2) + (z @ right.mT).unsqueeze(1)
        g = torch.relu(self.second(torch.relu(pairs)))  # (batch, objects, objects, PAIR)
        return self.out(g.sum((1, 2)))
