"""The rules of the relational games: which objects stand where in a grid of 3 x 3, and whether a relation holds.

Objects that are not the same are unlike in one of three ways, equally often: in colour alone, in shape (or how it is
turned) alone, or in both. Stripes that are not the same are any two. Both were counted in released images (Shanahan et
al. 2020: "between" and patterns in a column, 5,000 each of hexominoes and stripes), and are taken to hold of all games.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.tasks.relational.scene_objects import GRID, Objects
from mnemoscope.tasks.relational.task import balanced, different, letters, of_labels

CELLS = GRID * GRID
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
_LINES = torch.tensor([*LINES, (3, 4, 5)])
WAYS = ("colour", "shape", "both")
"""In which objects are unlike."""
LUMINANCE = torch.tensor([2126, 7152, 722])
"""Of red, green and blue, in ten thousandths (ITU-R BT.709), as the published labels were made."""
_ROWS = ("aaa", "aab", "aba", "abb", "abc")
_OTHER_ROWS = ("ddd", "dde", "ded", "dee", "def")


class Placed(NamedTuple):
    """Objects by their numbers and the cells in which they stand, counted row by row, and the labels."""

    cells: Int[Tensor, "batch shown"]
    things: Int[Tensor, "batch shown"]
    labels: Int[Tensor, " batch"]


Rule = Callable[[int, Generator, Objects], Placed]


def same(size: int, generator: Generator, objects: Objects) -> Placed:
    """Two objects anywhere, of the same shape, colour and orientation."""
    labels = balanced(size, 2, generator)
    things = unlike(size, 2, objects, generator).gather(1, letters("ab", "aa")[labels])
    return Placed(different(size, 2, CELLS, generator), things, labels)


def between(size: int, generator: Generator, objects: Objects) -> Placed:
    """Three objects in a straight line, the outer two of which are the same.

    Where it does not hold there are four kinds, equally often: in a line, but the outer two are unlike in colour, in
    shape or in both; and any three objects in any three cells. Stripes have the last two of these. The object between
    is any, and the middle row is taken twice as often as another line (all this was counted in the released images).
    """
    labels = balanced(size, 2, generator)
    kinds = torch.arange(len(WAYS) + 1)[:, None]
    kind = of_labels(labels, (kinds if objects.shapes > 1 else kinds[-2:], kinds[:1]), generator)
    first, middle, other = different(size, 3, len(objects.images), generator).split(1, 1)
    if objects.shapes > 1:
        other = torch.where(kind < len(WAYS), varied(first, kind, objects, generator), other)
    last = torch.where(labels[:, None] == 1, first, other)
    line = _LINES[torch.randint(len(_LINES), (size,), generator=generator)]
    anywhere = (kind == len(WAYS)) & (labels[:, None] == 0)
    cells = torch.where(anywhere, different(size, 3, CELLS, generator), line)
    return Placed(cells, torch.cat([first, middle, last], 1), labels)


def occurs(size: int, generator: Generator, objects: Objects) -> Placed:
    """One object top middle, which is one of the three in the bottom row; the others are alike as often as not."""
    return _top_and_bottom(("a bcd", "a bbc"), ("a abc", "a abb"), size, generator, objects)


def xoccurs(size: int, generator: Generator, objects: Objects) -> Placed:
    """One object top middle, which is one of the three in the bottom row, and the other two are different."""
    return _top_and_bottom(("a abb", "a bcd", "a bbc"), ("a abc",), size, generator, objects)


def row_matching(size: int, generator: Generator, objects: Objects) -> Placed:
    """Three objects in the top row and three others in the bottom row, by the same pattern: aaa, aab, aba, abb, abc."""
    labels = balanced(size, 2, generator)
    alike = [top + bottom for top, bottom in zip(_ROWS, _OTHER_ROWS, strict=True)]
    others = [top + bottom for top, bottom in product(_ROWS, _OTHER_ROWS) if top + bottom not in alike]
    pattern = of_labels(labels, (letters(*others), letters(*alike)), generator)
    shown = torch.cat([unlike(size, 3, objects, generator), unlike(size, 3, objects, generator)], 1)
    while (again := (shown[:, :3, None] == shown[:, None, 3:]).any(2).any(1)).any():  # no object is in both rows
        shown[again, 3:] = unlike(int(again.sum()), 3, objects, generator)
    return Placed(torch.tensor([0, 1, 2, 6, 7, 8]).expand(size, 6), shown.gather(1, pattern), labels)


def colour_shape(size: int, generator: Generator, objects: Objects) -> Placed:
    """Two objects anywhere: 0 if colour and shape are the same, 1 same colour, 2 same shape, 3 neither.

    A shape that is turned is another one, as in `same`.
    """
    colours = len(objects.colours)
    labels = balanced(size, 4, generator)
    colour = different(size, 2, colours, generator)
    shape = different(size, 2, objects.shapes, generator)
    colour = torch.where(labels[:, None] >= 2, colour, colour[:, :1])
    shape = torch.where(labels[:, None] % 2 == 1, shape, shape[:, :1])
    return Placed(different(size, 2, CELLS, generator), colours * shape + colour, labels)


def left_of(size: int, generator: Generator, objects: Objects) -> Placed:
    """Two objects anywhere, the darker one in a column further left, or in the same column and lower.

    They have the same shape in half of the problems: the published images are those of `same` whose colours differ.
    """
    labels = balanced(size, 2, generator)
    colours = len(objects.colours)
    rank = (objects.colours * LUMINANCE).sum(1).argsort()
    darker_first = rank[different(size, 2, colours, generator).sort(1).values]
    shape = different(size, 2, objects.shapes, generator)
    shape = torch.where(balanced(size, 2, generator)[:, None] == 1, shape, shape[:, :1])
    cells = different(size, 2, CELLS, generator)
    left_first = cells.gather(1, (cells % GRID * GRID - cells // GRID).argsort(1))  # in a column the lower one first
    cells = torch.where(labels[:, None] == 1, left_first, left_first.flip(1))
    return Placed(cells, colours * shape + darker_first, labels)


RULES: dict[str, Rule] = {
    "same": same,
    "between": between,
    "occurs": occurs,
    "xoccurs": xoccurs,
    "row matching": row_matching,
    "colour/shape": colour_shape,
    "left-of": left_of,
}


def unlike(size: int, number: int, objects: Objects, generator: Generator) -> Int[Tensor, "size number"]:
    """In each row different objects, each of them unlike one of those before it, whichever, in one of three ways."""
    if objects.shapes == 1:
        return different(size, number, len(objects.images), generator)
    found = torch.randint(len(objects.images), (size, number), generator=generator)
    for place in range(1, number):
        rows = torch.arange(size)
        while len(rows):
            one = torch.randint(place, (len(rows),), generator=generator)
            way = torch.randint(len(WAYS), (len(rows),), generator=generator)
            found[rows, place] = varied(found[rows, one], way, objects, generator)
            rows = rows[(found[rows, :place] == found[rows, place, None]).any(1)]  # it may be like another one
    return found


def varied(
    things: Int[Tensor, " *batch"], ways: Int[Tensor, " *batch"], objects: Objects, generator: Generator
) -> Int[Tensor, " *batch"]:
    """Objects that are unlike these in the given `WAYS`."""
    colours = len(objects.colours)
    shape, colour = things // colours, things % colours
    other_shape = (shape + torch.randint(1, objects.shapes, shape.shape, generator=generator)) % objects.shapes
    other_colour = (colour + torch.randint(1, colours, colour.shape, generator=generator)) % colours
    shape = torch.where(ways == WAYS.index("colour"), shape, other_shape)
    return colours * shape + torch.where(ways == WAYS.index("shape"), colour, other_colour)


def _top_and_bottom(
    fails: tuple[str, ...], holds: tuple[str, ...], size: int, generator: Generator, objects: Objects
) -> Placed:
    """Patterns "top bottom", all as often as the others of their label; the bottom row in random order."""
    labels = balanced(size, 2, generator)
    pattern = of_labels(labels, (letters(*fails), letters(*holds)), generator)
    bottom = pattern[:, 1:].gather(1, different(size, GRID, GRID, generator))
    things = unlike(size, 1 + GRID, objects, generator).gather(1, torch.cat([pattern[:, :1], bottom], 1))
    return Placed(torch.tensor([1, 6, 7, 8]).expand(size, 4), things, labels)
