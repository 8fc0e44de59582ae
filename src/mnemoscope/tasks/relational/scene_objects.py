"""Objects of the relational games: pentominoes, hexominoes and stripes, each in a cell of 12 x 12 pixels."""

from __future__ import annotations

from functools import cache
from itertools import combinations, product
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int

CELL = 12
"""Side of a cell, in pixels."""
GRID = 3
"""Cells per row and column of a picture, and squares per row and column of an object."""
_SQUARE = 3
"""Side of a square of an object, in pixels."""

ObjectKind = Literal["pentominoes", "hexominoes", "stripes"]


class Objects(NamedTuple):
    """All objects of a kind.

    Polyominoes are numbered `25 shape + colour`, stripes `25 outer colour + inner colour`.
    """

    images: Float[Tensor, "number 3 12 12"]
    colours: Int[Tensor, "25 3"]
    """Red, green and blue from 0 to 255."""
    shapes: int
    """Number of shapes, each of which comes in every colour; 1 for stripes, whose colours form pairs."""


@cache
def game_objects(kind: ObjectKind) -> Objects:
    """Return the objects of the relational games (Shanahan et al. 2019), on black, in 3 x 3 squares of a cell.

    Pentominoes and hexominoes are all connected sets of five or six squares, 49 and 48 in number (8 kinds each, up to
    rotation and reflection). Stripes are three vertical bars, the outer two of one colour. Pentominoes have the colours
    of levels 0, 128 and 255 except black and white. The others have those of levels 64, 144 and 192 except the darkest
    and the brightest grey. These are 25 colours each, so that the colours of the test are unseen too.

    >>> [len(game_objects(kind).images) for kind in ("pentominoes", "hexominoes", "stripes")]
    [1225, 1200, 625]
    """
    if kind not in get_args(ObjectKind):
        raise ValueError(f"kind must be one of {', '.join(map(repr, get_args(ObjectKind)))}, but is {kind!r}.")
    levels = (0, 128, 255) if kind == "pentominoes" else (64, 144, 192)
    colours = torch.tensor(list(product(levels, repeat=3))[1:-1])
    if kind == "stripes":
        outer, inner = colours.repeat_interleave(len(colours), 0), colours.repeat(len(colours), 1)
        rows = torch.stack([outer, inner, outer], 2)  # (625, rgb, 3 columns)
        squares, shapes = rows[:, :, None].expand(-1, -1, GRID, -1), 1
    else:
        masks = _polyominoes(5 if kind == "pentominoes" else 6)
        squares = (colours[None, :, :, None, None] * masks[:, None, None]).flatten(0, 1)
        shapes = len(masks)
    images = torch.zeros(len(squares), 3, CELL, CELL)
    end = 1 + GRID * _SQUARE
    images[:, :, 1:end, 1:end] = squares.repeat_interleave(_SQUARE, 2).repeat_interleave(_SQUARE, 3) / 255
    return Objects(images, colours, shapes)


def _polyominoes(squares: int) -> Int[Tensor, "number 3 3"]:
    """Return all connected sets of `squares` of the nine squares, as masks."""
    connected = [places for places in combinations(range(GRID * GRID), squares) if _connected(places)]
    masks = torch.zeros(len(connected), GRID * GRID, dtype=torch.int64)
    return masks.scatter(1, torch.tensor(connected), 1).unflatten(1, (GRID, GRID))


def _connected(places: tuple[int, ...]) -> bool:
    reached, rest = {places[0]}, {*places[1:]}
    while near := {place for place in rest if any(_adjacent(place, other) for other in reached)}:
        reached |= near
        rest -= near
    return not rest


def _adjacent(first: int, second: int) -> bool:
    (row, column), (other_row, other_column) = divmod(first, GRID), divmod(second, GRID)
    return abs(row - other_row) + abs(column - other_column) == 1
