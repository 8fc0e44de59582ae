"""Tasks whose test has untrained relations among untrained shapes (Kerg, 5.4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar, Literal, get_args

from torch import Generator

from mnemoscope.tasks.relational.basic import IdentityRules, MatchToSample, SameDifferent
from mnemoscope.tasks.relational.shape_task import LetterPatterns
from mnemoscope.tasks.relational.task import balanced, parse_patterns, patterns_by_label
from mnemoscope.tasks.splits import Split


@dataclass(frozen=True)
class RMTS3(MatchToSample):
    """Match-to-sample with triplets: training has aaa, aba and abb; the test has aab and abc.

    >>> RMTS3().needed("train"), RMTS3().needed("test")
    (6, 8)
    """

    m: int = 94

    also_held_out: ClassVar[tuple[str, ...]] = ("relations",)

    def rules(self, split: Split) -> tuple[str, ...]:
        if split == "test":
            return ("aab ccd efg", "abc def ggh")
        return ("aaa bbb cdc", "aaa bbb dcc", "aba cdc eee", "abb cdd eee", "aba cdc eff", "abb cdd efe")


_TRAINED = ("aaa", "aba", "baa")
"""Triplets of the training split."""
_HELD_OUT = "aab"
"""Triplet of the test split."""


@dataclass(frozen=True)
class SameDifferent6(SameDifferent):
    """Two triplets of the same two shapes a and b; the label is 0 if they are the same, 1 if they are different.

    In training, each triplet is aaa, aba or baa. In the test, at least one is aab.
    """

    also_held_out: ClassVar[tuple[str, ...]] = ("relations",)

    @property
    def parts(self) -> tuple[int, ...]:
        return (6,)

    @property
    def rows(self) -> tuple[int, ...]:
        return (3 * self.images_each,) * 2

    def problems(self, size: int, generator: Generator, split: Split) -> LetterPatterns:
        if split == "test":
            same = [_HELD_OUT + _HELD_OUT]
            different = [pair for form in _TRAINED for pair in (form + _HELD_OUT, _HELD_OUT + form)]
        else:
            same = [form + form for form in _TRAINED]
            different = [first + second for first, second in permutations(_TRAINED, 2)]
        labels = balanced(size, 2, generator)
        tables = parse_patterns(*same), parse_patterns(*different)
        return LetterPatterns(patterns_by_label(labels, tables, generator), labels)


Variant = Literal["plain", "missing", "without abaa", "without abab", "flipped", "flipped missing"]
_TWO_SHAPES = ("aaaa", "abaa", "aaba", "baaa", "abba", "abab", "aabb")
_THREE_SHAPES = ("abca", "baca", "bcaa")
_LEFT_OUT = {
    "missing": ("abaa", "abab"),
    "without abaa": ("abaa",),
    "without abab": ("abab",),
    "flipped missing": ("abca",),
}


@dataclass(frozen=True)
class IdentityRules4(IdentityRules):
    """Rows of four and six candidates; training has rows of up to two shapes, the test of three (Kerg, 5.4.3 and C.3).

    The `variant` "missing" leaves abaa and abab out of training, "without abaa" and "without abab" one of them.
    "flipped" trains with three shapes and tests with up to two; "flipped missing" leaves abca out of that training.

    >>> IdentityRules4(variant="flipped missing").rules("train")
    ('baca', 'bcaa')
    """

    m: int = 94
    variant: Variant = "plain"

    also_held_out: ClassVar[tuple[str, ...]] = ("relations",)

    def __post_init__(self) -> None:
        if self.variant not in get_args(Variant):
            known = ", ".join(map(repr, get_args(Variant)))
            raise ValueError(f"variant must be one of {known}, but is {self.variant!r}.")
        super().__post_init__()

    def rules(self, split: Split) -> tuple[str, ...]:
        flipped = self.variant.startswith("flipped")
        rows = _THREE_SHAPES if (split == "test") != flipped else _TWO_SHAPES
        left_out = _LEFT_OUT.get(self.variant, ()) if split != "test" else ()
        return tuple(row for row in rows if row not in left_out)

    @property
    def candidates(self) -> int:
        return 6
