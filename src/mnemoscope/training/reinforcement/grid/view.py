"""The 7 x 7 squares that an agent sees, with MiniGrid's rule for what walls and closed doors hide."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Int, Num
from mnemoscope.training.reinforcement.grid.codes import code, tables
from mnemoscope.training.reinforcement.grid.rules import Position, steps_ahead

SIZE = 7
"""Squares along a side of the view; the agent is in the middle of its last row."""


def views(position: Position, width: int, occluded: bool) -> Num[Tensor, "batch 7 7 3"]:
    """Return what each agent sees, as MiniGrid's observation: (column, row, object with colour and state)."""
    known = tables(str(position.squares.device))
    places = position.place.unsqueeze(1) + offsets(width, str(position.squares.device))[position.direction]
    squares = position.squares.gather(1, places).long().unflatten(1, (SIZE, SIZE))  # (batch, column, row)
    if occluded:
        squares = torch.where(visible(known.transparent[squares]), squares, code(0))
    squares[:, SIZE // 2, -1] = position.carried  # an agent sees what it carries, at its own place
    return known.triples[squares]


def visible(transparent: Int[Tensor, "batch 7 7"]) -> Bool[Tensor, "batch 7 7"]:
    """Return which squares of the view are seen, (batch, column, row).

    The agent's square is seen. From the last row to the first, a seen transparent square shows its neighbours in the
    row and the squares above it and above them, first for squares from left to right, then from right to left.
    Whatever this does to a row depends on two numbers of seven bits, so that one table has all cases.
    """
    device = transparent.device
    bit = 1 << torch.arange(SIZE, device=device)
    rows = (transparent * bit.view(1, SIZE, 1)).sum(1)  # (batch, row): the transparent squares of a row as bits
    table, seen = row_table(str(device)), torch.full_like(rows[:, 0], 1 << SIZE // 2)
    found = []
    for row in reversed(range(SIZE)):
        result = table[(seen << SIZE) | rows[:, row]]
        found.append(result >> SIZE)
        seen = result & ((1 << SIZE) - 1)
    bits = torch.stack(found[::-1], 1)  # (batch, row)
    return (bits.unsqueeze(1) & bit.view(1, SIZE, 1)) > 0


@cache
def row_table(device: str) -> Int[Tensor, " cases"]:
    """Return the seen squares of a row, and after them those of the row above, from those seen before and transparent.

    All are seven bits, the column 0 in the lowest: the result is `row << 7 | above` at `seen << 7 | transparent`.
    """
    cases = torch.arange(1 << 2 * SIZE)
    seen, transparent, above = cases >> SIZE, cases & ((1 << SIZE) - 1), torch.zeros_like(cases)
    for columns, step in ((range(SIZE - 1), 1), (range(SIZE - 1, 0, -1), -1)):
        for column in columns:
            shows = (seen & transparent) >> column & 1
            seen = seen | shows << column + step
            above = above | shows << column | shows << column + step
    return (seen << SIZE | above).to(device)


@cache
def offsets(width: int, device: str) -> Int[Tensor, "4 49"]:
    """Return the places of the seen squares relative to the agent, for each direction, column by column."""
    directions = torch.arange(4)
    forward, right = steps_ahead(directions, width), steps_ahead((directions + 1) % 4, width)
    column, row = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    ahead, aside = SIZE - 1 - row.flatten(), column.flatten() - SIZE // 2
    return (forward.unsqueeze(1) * ahead + right.unsqueeze(1) * aside).to(device)
