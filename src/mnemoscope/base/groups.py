"""Finite groups by their multiplication tables, and the letters of the words that are multiplied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce

from mnemoscope.base.suggestions import did_you_mean

Permutation = tuple[int, ...]
"""Images of 0, 1, 2, ..."""


@dataclass(frozen=True)
class Group:
    """A finite group, and the elements that are the letters of words.

    Elements are numbered, and 0 is the identity. The product of a word multiplies each new letter from the left, as
    operators act: the word x, y has the product `table[y][x]`.

    >>> parity = Group(((0, 1), (1, 0)), letters=(0, 1))
    >>> parity.order, parity.multiply([1, 1, 1])
    (2, 1)
    """

    table: tuple[tuple[int, ...], ...]
    """`table[a][b]` is the element ab."""
    letters: tuple[int, ...]
    """Elements from which words are made; they generate the group."""
    names: tuple[str, ...] = ()
    """Names of the elements; by default their numbers."""

    def __post_init__(self) -> None:
        order = len(self.table)
        if not _is_loop(self.table):
            raise ValueError(
                "Each row and column of the table of a group holds every element once, and row and column 0, those of "
                "the identity, hold them in order; this table does not."
            )
        if not self.letters or not all(0 <= letter < order for letter in self.letters):
            raise ValueError(f"Letters are elements from 0 to {order - 1}, at least one, but are {self.letters}.")
        generators = self._generators()
        if len(self._reached(generators)) < order:
            raise ValueError(
                f"The letters {self.letters} reach {len(self._reached(generators))} of {order} elements: add letters."
            )
        if not _is_associative(self.table, generators):
            raise ValueError("The table is not that of a group: (ab)c differs from a(bc) for some elements.")
        if not self.names:
            object.__setattr__(self, "names", tuple(map(str, range(order))))
        if len(self.names) != order:
            raise ValueError(f"A group of {order} elements needs as many names, but has {len(self.names)}.")

    @property
    def order(self) -> int:
        """Number of elements."""
        return len(self.table)

    @cached_property
    def inverses(self) -> tuple[int, ...]:
        """The inverse of each element."""
        return tuple(row.index(0) for row in self.table)

    def multiply(self, word: Iterable[int]) -> int:
        """Return the product of elements; each one multiplies from the left."""
        return reduce(lambda product, element: self.table[element][product], word, 0)

    def order_of(self, element: int) -> int:
        """Return the least power of an element that is the identity."""
        power, count = element, 1
        while power:
            power, count = self.table[element][power], count + 1
        return count

    def _reached(self, letters: Sequence[int]) -> set[int]:
        reached, new = {0}, {0}
        while new:
            new = {self.table[letter][element] for letter in letters for element in new} - reached
            reached |= new
        return reached

    def _generators(self) -> list[int]:
        """Return some of the letters, few, that reach as many elements as all."""
        chosen: list[int] = []
        reached = {0}
        for letter in self.letters:
            if letter not in reached:
                chosen.append(letter)
                reached = self._reached(chosen)
        return chosen


def permutation_group(generators: Sequence[Permutation], letters: Sequence[Permutation] | None = None) -> Group:
    """Return the group that permutations generate; letters are all its elements, unless some are given.

    >>> rotations = permutation_group([(1, 2, 0)])
    >>> rotations.order, rotations.names
    (3, ('e', '(0 1 2)', '(0 2 1)'))
    """
    identity = tuple(range(len(generators[0])))
    reached, new = {identity}, {identity}
    while new:
        new = {_compose(generator, element) for generator in generators for element in new} - reached
        reached |= new
    elements = sorted(reached)  # the identity is the first
    number = {element: index for index, element in enumerate(elements)}
    table = tuple(tuple(number[_compose(a, b)] for b in elements) for a in elements)
    chosen = range(len(elements)) if letters is None else (number[letter] for letter in letters)
    return Group(table, tuple(chosen), tuple(map(_cycles, elements)))


GENERATORS: dict[str, tuple[Permutation, ...]] = {
    "Z2": ((1, 0),),
    "Z3": ((1, 2, 0),),
    "Z6": ((1, 2, 3, 4, 5, 0),),
    "S3": ((1, 0, 2), (0, 2, 1)),
    "A4": ((1, 2, 0, 3), (1, 0, 3, 2)),
    "S4": ((1, 0, 2, 3), (1, 2, 3, 0)),
    "A5": ((1, 0, 3, 2, 4), (0, 2, 4, 3, 1)),
    "S5": ((1, 0, 2, 3, 4), (1, 2, 3, 4, 0)),
}
"""Generators of the groups that have a name. Those of S3 are transpositions; those of A5 have order 2 and 3."""


@cache
def named_group(name: str, letters: str = "elements") -> Group:
    """Return a group by name, whose letters are all its elements, or with "generators" some that generate it.

    >>> named_group("S3").order, [named_group("S3", "generators").names[x] for x in (2, 1)]
    (6, ['(0 1)', '(1 2)'])
    """
    if name not in GENERATORS:
        raise ValueError(f"There is no group {name!r}.{did_you_mean(name, GENERATORS)} Known: {', '.join(GENERATORS)}.")
    if letters not in ("elements", "generators"):
        raise ValueError(f'letters must be "elements" or "generators", but is {letters!r}.')
    generators = GENERATORS[name]
    return permutation_group(generators, generators if letters == "generators" else None)


def _compose(a: Permutation, b: Permutation) -> Permutation:
    """Return the permutation that applies b first."""
    return tuple(a[image] for image in b)


def _cycles(permutation: Permutation) -> str:
    """Return a permutation as the product of its cycles, such as (0 1)(2 3); e is the identity."""
    seen: set[int] = set()
    text = ""
    for start in range(len(permutation)):
        cycle = []
        while start not in seen:
            seen.add(start)
            cycle.append(str(start))
            start = permutation[start]
        if len(cycle) > 1:
            text += f"({' '.join(cycle)})"
    return text or "e"


def _is_loop(table: tuple[tuple[int, ...], ...]) -> bool:
    """Return whether the table is a Latin square in which 0 is the identity."""
    elements = list(range(len(table)))
    if not elements or any(sorted(row) != elements for row in table):
        return False
    columns = [list(column) for column in zip(*table, strict=True)]
    return list(table[0]) == columns[0] == elements and all(sorted(column) == elements for column in columns)


def _is_associative(table: tuple[tuple[int, ...], ...], generators: Sequence[int]) -> bool:
    """Return whether (ax)b = a(xb) for all a and b. To test the generators x is enough (Light's test)."""
    return all(table[row[x]][b] == row[table[x][b]] for x in generators for row in table for b in range(len(table)))
