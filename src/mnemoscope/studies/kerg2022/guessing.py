"""The largest share of episodes in which an agent can succeed that does not know the target of a MiniGrid room."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from mnemoscope.training.reinforcement.grid import Release

KINDS = 12
"""Kinds of objects in Fetch: keys and balls in six colours."""


def largest_share(place: str, release: Release) -> Fraction | None:
    """Return the largest share of successes by guessing in a room; None where the agent sees its target.

    >>> print(largest_share("GoToObject-6x6-N2", "gym-minigrid 1"), largest_share("GoToObject-6x6-N2", "minigrid 3"))
    7/8 77/120
    >>> print(largest_share("GoToDoor-8x8", "minigrid 3"), largest_share("Fetch-8x8-N3", "minigrid 3"))
    1/4 179/432
    """
    kind, size = place.split("-")[0], place.split("-")[1].split("x")[0] if "-" in place else ""
    if kind == "GoToObject":
        return _two_objects(int(size) - 2, diagonal=release == "gym-minigrid 1")
    if kind == "GoToDoor":
        return Fraction(1, 4)  # no square inside is in front of two of the four doors
    if kind == "Fetch":
        return _most_frequent_kind(int(place[-1]))
    return None


def _two_objects(side: int, diagonal: bool) -> Fraction:
    """Return the mean share of two objects, on random squares, that are near one square, the best for each level."""
    squares = [(row, column) for row in range(side) for column in range(side)]

    def near(first: tuple[int, int], second: tuple[int, int]) -> bool:
        distances = abs(first[0] - second[0]), abs(first[1] - second[1])
        return max(distances) <= 1 if diagonal else sum(distances) == 1

    around = {square: {other for other in squares if near(square, other)} for square in squares}
    pairs = [(first, second) for first, second in product(squares, repeat=2) if first != second]
    shared = sum(bool(around[first] & around[second]) for first, second in pairs)
    return (1 + Fraction(shared, len(pairs))) / 2


def _most_frequent_kind(objects: int) -> Fraction:
    """Return the mean share of the most frequent kind among some objects of random kinds."""
    levels = list(product(range(KINDS), repeat=objects))
    return Fraction(sum(max(level.count(kind) for kind in level) for level in levels), objects * len(levels))
