"""PrediNet: propositions about pairs of objects that attention picks."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.relational.layers import layer, mlp
from mnemoscope.relational.network import Options, RelationalModel, Seen, Sized, with_places

KEY, HEADS, RELATIONS = 16, 32, 16


class PrediNet(RelationalModel):
    """Each head picks two objects by attention and says how they differ (Shanahan et al. 2020, with the sizes of Webb
    et al. 2021: keys of 16, 32 heads, 16 relations, and a hidden layer of 8).

    With objects `l_i = [z_i; i]`, keys `W_K l_i` that all heads share, and two queries of each head that are linear in
    all objects, head h attends to `e_1 = sum_i softmax_i(q_1 . k_i) l_i` and likewise e_2. Its propositions are
    `W_S e_1 - W_S e_2`, W_S shared by the heads, and the places of both.
    """

    instead = "each of its heads picks two objects by attention and says how they differ"

    def __init__(self, problem: Sized, **options: Unpack[Options]) -> None:
        super().__init__(problem, **options)
        size = self.features + 1
        self.keys = layer(size, KEY, bias=False)
        self.queries = layer(self.objects * size, 2 * HEADS * KEY, bias=False)
        self.compare = layer(size, RELATIONS, bias=False)
        self.out = mlp(HEADS * (RELATIONS + 2), 8, self.choices)

    def propositions(self, z: Float[Tensor, "batch objects features"]) -> Float[Tensor, "batch heads relations"]:
        """Relations of each head, then the places of its two objects."""
        objects = with_places(z)
        queries = self.queries(objects.flatten(1)).unflatten(1, (2 * HEADS, KEY))
        attention = (queries @ self.keys(objects).mT).softmax(2)  # (batch, 2 heads, objects)
        first, second = (attention @ objects).chunk(2, dim=1)
        return torch.cat([self.compare(first - second), first[..., -1:], second[..., -1:]], dim=2)

    def answer(self, seen: Seen) -> Float[Tensor, "batch choices"]:
        return self.out(self.propositions(seen.z).flatten(1))
