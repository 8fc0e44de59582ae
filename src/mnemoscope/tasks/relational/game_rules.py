"""The rules of the relational games: objects in a grid of 3 x 3, and whether a relation holds among them.

Objects that are not the same differ in one of three ways, equally often: in colour alone, in shape (or orientation)
alone, or in both. Stripes that are not the same are any two. Both facts were counted in released images (Shanahan et
al. 2020: "between" and patterns in a column, 5,000 each of hexominoes and stripes), and are assumed for all games.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.tasks.relational.scene_objects import GRID, Objects
from mnemoscope.tasks.relational.task import balanced, parse_patterns, patterns_by_label, sample_distinct

CELLS = GRID * GRID
"""Number of cells of the grid."""
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
"""Cells of the straight lines."""
_DRAWN_LINES = torch.tensor([*LINES, (3, 4, 5)])
"""Lines to draw from: the middle row is twice as frequent as the others."""
DIFFERENCES = ("colour", "shape", "both")
"""Ways in which two objects differ."""
LUMINANCE = torch.tensor([2126, 7152, 722])
"""Luminance of red, green and blue, in ten thousandths (ITU-R BT.709), as for the published labels."""
_ROWS = ("aaa", "aab", "aba", "abb", "abc")
_OTHER_ROWS = ("ddd", "dde", "ded", "dee", "def")


class Placement(NamedTuple):
    """Objects by number, their cells, counted by rows, and the labels."""

    cells: Int[Tensor, "batch shown"]
    things: Int[Tensor, "batch shown"]
    labels: Int[Tensor, " batch"]


class Bottoms(NamedTuple):
    """Patterns of the row below object a."""

    fails: tuple[str, ...]
    """Patterns for which the rule does not hold."""
    holds: tuple[str, ...]

    def only(self, failing: str) -> Bottoms:
        """Return the same with some of the patterns that fail, given with spaces between; all if none are given.

        >>> OCCURRING["xoccurs"].only("abb bbc").fails
        ('abb', 'bbc')
        """
        chosen = tuple(failing.split())
        if not {*chosen} <= {*self.fails}:
            raise ValueError(f"failing must be some of {' '.join(self.fails)!r}, but is {failing!r}.")
        return self._replace(fails=chosen or self.fails)


OCCURRING = {
    "occurs": Bottoms(("bcd", "bbc"), ("abc", "abb")),
    "xoccurs": Bottoms(("abb", "bcd", "bbc"), ("abc",)),
}
"""Rows of the rules about an object above a row."""

Rule = Callable[..., Placement]


def same(size: int, generator: Generator, objects: Objects) -> Placement:
    """Return two objects anywhere; the rule: same shape, colour and orientation."""
    labels = balanced(size, 2, generator)
    things = sample_objects(size, 2, objects, generator).gather(1, parse_patterns("ab", "aa")[labels])
    return Placement(sample_distinct(size, 2, CELLS, generator), things, labels)


def between(size: int, generator: Generator, objects: Objects) -> Placement:
    """Return three objects; the rule: they lie in a straight line, and the outer two are the same.

    Problems where the rule does not hold are of four kinds, equally often: in a line, but the outer two differ in
    colour, in shape or in both; and any three objects in any three cells. Stripes have the last two kinds. The middle
    object is arbitrary, and the middle row is twice as frequent as another line (all counted in the released images).
    """
    labels = balanced(size, 2, generator)
    kinds = torch.arange(len(DIFFERENCES) + 1)[:, None]
    kind = patterns_by_label(labels, (kinds if objects.shapes > 1 else kinds[-2:], kinds[:1]), generator)
    first, middle, other = sample_distinct(size, 3, len(objects.images), generator).split(1, 1)
    if objects.shapes > 1:
        other = torch.where(kind < len(DIFFERENCES), change_objects(first, kind, objects, generator), other)
    last = torch.where(labels[:, None] == 1, first, other)
    line = _DRAWN_LINES[torch.randint(len(_DRAWN_LINES), (size,), generator=generator)]
    anywhere = (kind == len(DIFFERENCES)) & (labels[:, None] == 0)
    cells = torch.where(anywhere, sample_distinct(size, 3, CELLS, generator), line)
    return Placement(cells, torch.cat([first, middle, last], 1), labels)


def occurs(size: int, generator: Generator, objects: Objects, failing: str = "") -> Placement:
    """Return one object above a row of three; the rule: it occurs in the row. Half of the other two are equal."""
    return _top_and_bottom(OCCURRING["occurs"].only(failing), size, generator, objects)


def xoccurs(size: int, generator: Generator, objects: Objects, failing: str = "") -> Placement:
    """Return one object above a row of three; the rule: it occurs in the row, and the other two differ."""
    return _top_and_bottom(OCCURRING["xoccurs"].only(failing), size, generator, objects)


def row_matching(size: int, generator: Generator, objects: Objects) -> Placement:
    """Return rows of three objects each; the rule: both have the same pattern (aaa, aab, aba, abb or abc)."""
    labels = balanced(size, 2, generator)
    matching = [top + bottom for top, bottom in zip(_ROWS, _OTHER_ROWS, strict=True)]
    others = [top + bottom for top, bottom in product(_ROWS, _OTHER_ROWS) if top + bottom not in matching]
    pattern = patterns_by_label(labels, (parse_patterns(*others), parse_patterns(*matching)), generator)
    shown = torch.cat([sample_objects(size, 3, objects, generator), sample_objects(size, 3, objects, generator)], 1)
    # draw again until no object is in both rows
    while (again := (shown[:, :3, None] == shown[:, None, 3:]).any(2).any(1)).any():
        shown[again, 3:] = sample_objects(int(again.sum()), 3, objects, generator)
    return Placement(torch.tensor([0, 1, 2, 6, 7, 8]).expand(size, 6), shown.gather(1, pattern), labels)


def colour_shape(size: int, generator: Generator, objects: Objects) -> Placement:
    """Return two objects anywhere; the label is 0 for same colour and shape, 1 same colour, 2 same shape, 3 neither.

    A rotated shape is another shape, as in `same`.
    """
    colours = len(objects.colours)
    labels = balanced(size, 4, generator)
    colour = sample_distinct(size, 2, colours, generator)
    shape = sample_distinct(size, 2, objects.shapes, generator)
    colour = torch.where(labels[:, None] >= 2, colour, colour[:, :1])
    shape = torch.where(labels[:, None] % 2 == 1, shape, shape[:, :1])
    return Placement(sample_distinct(size, 2, CELLS, generator), colours * shape + colour, labels)


def left_of(size: int, generator: Generator, objects: Objects) -> Placement:
    """Return two objects anywhere; the rule: the darker one is further left, or lower in the same column.

    Half of the problems have equal shapes: the published images are those of `same` whose colours differ.
    """
    labels = balanced(size, 2, generator)
    colours = len(objects.colours)
    rank = (objects.colours * LUMINANCE).sum(1).argsort()
    darker_first = rank[sample_distinct(size, 2, colours, generator).sort(1).values]
    shape = sample_distinct(size, 2, objects.shapes, generator)
    shape = torch.where(balanced(size, 2, generator)[:, None] == 1, shape, shape[:, :1])
    cells = sample_distinct(size, 2, CELLS, generator)
    left_first = cells.gather(1, (cells % GRID * GRID - cells // GRID).argsort(1))  # in a column, the lower one first
    cells = torch.where(labels[:, None] == 1, left_first, left_first.flip(1))
    return Placement(cells, colours * shape + darker_first, labels)


RULES: dict[str, Rule] = {
    "same": same,
    "between": between,
    "occurs": occurs,
    "xoccurs": xoccurs,
    "row matching": row_matching,
    "colour/shape": colour_shape,
    "left-of": left_of,
}


def sample_objects(size: int, number: int, objects: Objects, generator: Generator) -> Int[Tensor, "size number"]:
    """Return in each row different objects; each differs from a random earlier one in one of three ways."""
    if objects.shapes == 1:
        return sample_distinct(size, number, len(objects.images), generator)
    drawn = torch.randint(len(objects.images), (size, number), generator=generator)
    for place in range(1, number):
        rows = torch.arange(size)
        while len(rows):
            earlier = torch.randint(place, (len(rows),), generator=generator)
            difference = torch.randint(len(DIFFERENCES), (len(rows),), generator=generator)
            drawn[rows, place] = change_objects(drawn[rows, earlier], difference, objects, generator)
            rows = rows[(drawn[rows, :place] == drawn[rows, place, None]).any(1)]  # it may equal another earlier one
    return drawn


def change_objects(
    things: Int[Tensor, " *batch"], differences: Int[Tensor, " *batch"], objects: Objects, generator: Generator
) -> Int[Tensor, " *batch"]:
    """Return objects that differ from `things` in the given `DIFFERENCES`."""
    colours = len(objects.colours)
    shape, colour = things // colours, things % colours
    other_shape = (shape + torch.randint(1, objects.shapes, shape.shape, generator=generator)) % objects.shapes
    other_colour = (colour + torch.randint(1, colours, colour.shape, generator=generator)) % colours
    shape = torch.where(differences == DIFFERENCES.index("colour"), shape, other_shape)
    return colours * shape + torch.where(differences == DIFFERENCES.index("shape"), colour, other_colour)


def _top_and_bottom(rows: Bottoms, size: int, generator: Generator, objects: Objects) -> Placement:
    """Return problems with object a above a row, balanced within each label, with the row in random order."""
    labels = balanced(size, 2, generator)
    tables = [parse_patterns(*(f"a {row}" for row in each)) for each in (rows.fails, rows.holds)]
    pattern = patterns_by_label(labels, tables, generator)
    bottom = pattern[:, 1:].gather(1, sample_distinct(size, GRID, GRID, generator))
    things = sample_objects(size, 1 + GRID, objects, generator).gather(1, torch.cat([pattern[:, :1], bottom], 1))
    return Placement(torch.tensor([1, 6, 7, 8]).expand(size, 4), things, labels)
