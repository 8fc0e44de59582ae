"""The rules of the relational games: which objects stand where in a grid of 3 x 3, and whether a relation holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations, permutations, product
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from mnemoscope.relational.tasks.game_objects import GRID, Objects
from mnemoscope.relational.tasks.task import balanced, different, letters, of_labels
from mnemoscope.shapes import Int

CELLS = GRID * GRID
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
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
    things = _things(letters("ab", "aa")[labels], objects, generator)
    return Placed(different(size, 2, CELLS, generator), things, labels)


def between(size: int, generator: Generator, objects: Objects) -> Placed:
    """Three objects in a straight line, the outer two of which are the same.

    Where it does not hold there are four kinds, equally often: aab, abb and abc in a line, and aba not in a line.
    (That there are four is known of the published images; which they are is taken from the rule.)
    """
    labels = balanced(size, 2, generator)
    in_a_line = [[*pattern, 1] for pattern in letters("aba", "aab", "abb", "abc").tolist()]
    kinds = torch.tensor([[0, 1, 0, 0], *in_a_line])
    chosen = of_labels(labels, (kinds[[0, 2, 3, 4]], kinds[1:2]), generator)
    pattern, straight = chosen[:, :3], chosen[:, 3:] == 1
    lines, others = torch.tensor(LINES), _not_in_a_line()
    line = lines[torch.randint(len(lines), (size,), generator=generator)]
    other = others[torch.randint(len(others), (size,), generator=generator)]
    return Placed(torch.where(straight, line, other), _things(pattern, objects, generator), labels)


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
    unlike = [top + bottom for top, bottom in product(_ROWS, _OTHER_ROWS) if top + bottom not in alike]
    pattern = of_labels(labels, (letters(*unlike), letters(*alike)), generator)
    return Placed(torch.tensor([0, 1, 2, 6, 7, 8]).expand(size, 6), _things(pattern, objects, generator), labels)


def colour_shape(size: int, generator: Generator, objects: Objects) -> Placed:
    """Two objects anywhere: 0 if colour and shape are the same, 1 same colour, 2 same shape, 3 neither.

    A shape that is turned is another one, as in `same`.
    """
    colours = len(objects.colours)
    labels = balanced(size, 4, generator)
    colour = different(size, 2, colours, generator)
    shape = different(size, 2, len(objects.images) // colours, generator)
    colour = torch.where(labels[:, None] >= 2, colour, colour[:, :1])
    shape = torch.where(labels[:, None] % 2 == 1, shape, shape[:, :1])
    return Placed(different(size, 2, CELLS, generator), colours * shape + colour, labels)


def left_of(size: int, generator: Generator, objects: Objects) -> Placed:
    """Two objects anywhere, the darker one in a column further left, or in the same column and lower."""
    labels = balanced(size, 2, generator)
    colours = len(objects.colours)
    rank = (objects.colours * LUMINANCE).sum(1).argsort()
    darker_first = rank[different(size, 2, colours, generator).sort(1).values]
    shape = torch.randint(len(objects.images) // colours, (size, 2), generator=generator)
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


def _things(pattern: Int[Tensor, "batch shown"], objects: Objects, generator: Generator) -> Int[Tensor, "batch shown"]:
    """A different object for each letter."""
    number = int(pattern.max()) + 1
    return different(len(pattern), number, len(objects.images), generator).gather(1, pattern)


@cache
def _not_in_a_line() -> Int[Tensor, "places 3"]:
    """Three cells that are no line, in every order."""
    lines = {frozenset(line) for line in LINES}
    off = [cells for cells in combinations(range(CELLS), 3) if frozenset(cells) not in lines]
    return torch.tensor([order for cells in off for order in permutations(cells)])


def _top_and_bottom(
    fails: tuple[str, ...], holds: tuple[str, ...], size: int, generator: Generator, objects: Objects
) -> Placed:
    """Patterns "top bottom", all as often as the others of their label; the bottom row in random order."""
    labels = balanced(size, 2, generator)
    pattern = of_labels(labels, (letters(*fails), letters(*holds)), generator)
    bottom = pattern[:, 1:].gather(1, different(size, GRID, GRID, generator))
    things = _things(torch.cat([pattern[:, :1], bottom], 1), objects, generator)
    return Placed(torch.tensor([1, 6, 7, 8]).expand(size, 4), things, labels)
