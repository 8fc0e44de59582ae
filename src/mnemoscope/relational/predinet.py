"""PrediNet: propositions about pairs of objects that attention selects."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.relational.layers import layer, mlp
from mnemoscope.relational.network import EncodedObjects, ModelOptions, ProblemLike, RelationalModel, with_positions

KEY, HEADS, RELATIONS = 16, 32, 16
"""Length of a key, number of heads, and relations per head."""


class PrediNet(RelationalModel):
    """Heads that each select two objects by attention and compute their differences (Shanahan et al. 2020).

    The sizes are those of Webb et al. (2021): keys of 16, 32 heads, 16 relations, and a hidden layer of 8. With objects
    `l_i = [z_i; i]`, keys `W_K l_i` shared by all heads, and two queries per head that are linear in all objects, a
    head attends to `e_1 = sum_i softmax_i(q_1 . k_i) l_i` and likewise to e_2. Its propositions are
    `W_S e_1 - W_S e_2`, with W_S shared by the heads, and the positions of both.
    """

    mechanism = "each of its heads selects two objects by attention and computes their differences"

    def __init__(self, problem: ProblemLike, **options: Unpack[ModelOptions]) -> None:
        super().__init__(problem, **options)
        size = self.features + 1
        self.keys = layer(size, KEY, bias=False)
        self.queries = layer(self.objects * size, 2 * HEADS * KEY, bias=False)
        self.compare = layer(size, RELATIONS, bias=False)
        self.out = mlp(HEADS * (RELATIONS + 2), 8, self.choices)

    def propositions(self, z: Float[Tensor, "batch objects features"]) -> Float[Tensor, "batch heads relations"]:
        """Return the relations of each head and the positions of its two objects."""
        objects = with_positions(z)
        queries = self.queries(objects.flatten(1)).unflatten(1, (2 * HEADS, KEY))
        attention = (queries @ self.keys(objects).mT).softmax(2)  # (batch, 2 heads, objects)
        first, second = (attention @ objects).chunk(2, dim=1)
        return torch.cat([self.compare(first - second), first[..., -1:], second[..., -1:]], dim=2)

    def answer(self, encoded: EncodedObjects) -> Float[Tensor, "batch choices"]:
        return self.out(self.propositions(encoded.z).flatten(1))
