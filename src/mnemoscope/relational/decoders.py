"""Decoders: from relation matrices to the logits of the answers.

All take the numbers of `objects` of a problem, of `choices`, the possible answers, and of `relations`, the matrices.
`sensory` is the number of features of each object that are appended to its relations, 0 for none.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import scan
from mnemoscope.relational.layers import layer, lstm, torch_mlp
from mnemoscope.relational.network import Logits, Objects, Relations
from mnemoscope.relational.similarity import RelationMask


class MLPDecoder(nn.Module):
    """MLP with separate weights for each entry of the relations (Kerg, section 5.5; hidden layer of 256, C.1 Table 1).

    It reads the entries that the mask contains.
    """

    indices: Tensor

    def __init__(
        self, objects: int, choices: int, relations: int, mask: RelationMask, hidden: int = 256, sensory: int = 0
    ) -> None:
        super().__init__()
        check_whole(1, hidden=hidden)
        self.register_buffer("indices", mask.indices(objects), persistent=False)
        self.layers = torch_mlp(relations * len(self.indices) + objects * sensory, hidden, choices)

    def forward(self, relations: Relations, sensory: Objects | None = None) -> Logits:
        read = relations.flatten(2).index_select(2, self.indices).flatten(1)
        return self.layers(read if sensory is None else torch.cat([read, sensory.flatten(1)], dim=1))


class TransformerDecoder(nn.Module):
    """CoRelNet-T: a learned query attends to the rows of the relations (Kerg, section 5.5 and C.1 Table 1).

    A row becomes a token `R_i P` of 8 numbers, with a learned position code P (objects x 8). The query attends with 8
    heads of 64; the result is added to the query and normalised, followed by a residual feed-forward block (8 to 128 to
    8) and another normalisation. Keys and values have no bias: a bias of the keys would not change the attention, and
    one of the values is part of the bias of the output map. Several relations have separate codes; the rows of all are
    tokens.
    """

    HEADS, WIDTH, CODE = 8, 64, 8

    def __init__(self, objects: int, choices: int, relations: int = 1, sensory: int = 0) -> None:
        super().__init__()
        wide, code = self.HEADS * self.WIDTH, self.CODE
        self.code = nn.Parameter(torch.randn(relations, objects, code))
        self.query = nn.Parameter(torch.randn(code))
        self.queries = nn.Linear(code, wide, bias=False)
        self.keys = nn.Linear(code + sensory, wide, bias=False)
        self.values = nn.Linear(code + sensory, wide, bias=False)
        self.found = nn.Linear(wide, code)
        self.norms = nn.ModuleList([nn.LayerNorm(code), nn.LayerNorm(code)])
        self.feed_forward = torch_mlp(code, 128, code)
        self.answer = torch_mlp(code, 256, choices)

    def forward(self, relations: Relations, sensory: Objects | None = None) -> Logits:
        tokens = relations @ self.code  # (batch, relations, objects, code)
        if sensory is not None:
            tokens = torch.cat([tokens, sensory.unsqueeze(1).expand(-1, tokens.shape[1], -1, -1)], dim=3)
        tokens = tokens.flatten(1, 2)
        query = self.query.expand(len(tokens), 1, -1)
        q, k, v = (by_head(part, self.HEADS) for part in (self.queries(query), self.keys(tokens), self.values(tokens)))
        attended = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        after, last = self.norms
        x = after(query + self.found(attended))
        return self.answer(last(x + self.feed_forward(x)).squeeze(1))


class RecurrentDecoder(nn.Module):
    """LSTM that reads the relations row by row; its last output gives the answer.

    It lies between CoRelNet, whose decoder sees the whole matrix, and ESBN, which compares and stores step by step. Of
    several relations, the rows of the same object enter at the same step.
    """

    def __init__(self, objects: int, choices: int, relations: int = 1, hidden: int = 512, sensory: int = 0) -> None:
        super().__init__()
        self.cell = lstm(relations * objects + sensory, hidden)
        self.answer = layer(hidden, choices)

    def forward(self, relations: Relations, sensory: Objects | None = None) -> Logits:
        rows = relations.transpose(1, 2).flatten(2)
        if sensory is not None:
            rows = torch.cat([rows, sensory], dim=2)
        outputs, _ = scan(self.cell, rows.transpose(0, 1))
        return self.answer(outputs[-1])


class PairsDecoder(nn.Module):
    """Two layers shared by all pairs of objects, with a bias per pair, whose sum gives the answer.

    This is a relation network (Santoro et al. 2017) that sees relations instead of objects; it is not in the thesis. An
    MLP has separate weights for each pair and must learn for each what a relation means. With a causal mask each pair
    is read in one direction, otherwise in both; the diagonal is not read. `hidden` are the units after the sum.
    """

    UNITS = 128
    first: Tensor
    second: Tensor

    def __init__(
        self, objects: int, choices: int, relations: int, mask: RelationMask, hidden: int = 256, sensory: int = 0
    ) -> None:
        super().__init__()
        check_whole(1, hidden=hidden)
        check_whole(2, objects=objects)
        second, first = torch.tril_indices(objects, objects, -1)
        self.register_buffer("first", first, persistent=False)
        self.register_buffer("second", second, persistent=False)
        self.both_ways = not mask.causal
        self.pair = nn.Linear(relations * (1 + self.both_ways) + 2 * sensory, self.UNITS)
        self.place = nn.Parameter(torch.zeros(len(first), self.UNITS))
        self.relation = nn.Linear(self.UNITS, self.UNITS)
        self.answer = torch_mlp(self.UNITS, hidden, choices)

    def forward(self, relations: Relations, sensory: Objects | None = None) -> Logits:
        read = [relations[:, :, self.second, self.first].mT]  # (batch, pairs, relations)
        read += [relations[:, :, self.first, self.second].mT] if self.both_ways else []
        read += [] if sensory is None else [sensory[:, self.second], sensory[:, self.first]]
        pairs = self.relation((self.pair(torch.cat(read, dim=2)) + self.place).relu()).relu()
        return self.answer(pairs.sum(1) / pairs.shape[1] ** 0.5)


def by_head(x: Float[Tensor, "batch tokens wide"], heads: int) -> Float[Tensor, "batch heads tokens width"]:
    """Split the last dimension into heads."""
    return x.unflatten(2, (heads, -1)).transpose(1, 2)
