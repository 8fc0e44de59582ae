"""Relational tasks: same/different, match-to-sample, identity rules and distribution-of-n (Kerg, 5.4.1 and C.4)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Bool, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.relational.shape_task import LetterPatterns, ShapeTask
from mnemoscope.tasks.relational.task import balanced, candidates_with_answer, parse_patterns, permutations
from mnemoscope.tasks.splits import Split


@dataclass(frozen=True)
class SameDifferent(ShapeTask):
    """Two objects; the label is 0 if they are the same, 1 if they are different.

    >>> SameDifferent(m=99)
    Traceback (most recent call last):
    ...
    ValueError: A problem of SameDifferent has up to 2 different shapes, but m = 99 leaves 1 of 100 to train with. \
Hold out 2 to 98, or none.
    """

    m: int = 98

    @property
    def answers(self) -> tuple[str, ...]:
        return ("same", "different")

    @property
    def parts(self) -> tuple[int, ...]:
        return (2,)

    def needed(self, split: Split) -> int:
        return 2

    def problems(self, size: int, generator: Generator, split: Split) -> LetterPatterns:
        labels = balanced(size, 2, generator)
        return LetterPatterns(parse_patterns("aa", "ab")[labels], labels)


@dataclass(frozen=True)
class MatchToSample(ShapeTask):
    """A source and two targets; the label is the target (0 or 1) with the same inner relations as the source."""

    @abstractmethod
    def rules(self, split: Split) -> tuple[str, ...]:
        """Return the problems of a split as patterns "source match other"; the order of the targets is drawn."""

    @property
    def answers(self) -> tuple[str, ...]:
        return ("target 0", "target 1")

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple(len(part) for part in self.rules("train")[0].split())

    def needed(self, split: Split) -> int:
        return len(set("".join(self.rules(split))) - {" "})

    def problems(self, size: int, generator: Generator, split: Split) -> LetterPatterns:
        patterns = parse_patterns(*self.rules(split)).unflatten(1, (3, -1))  # (rules, 3, objects)
        chosen = patterns[balanced(size, len(patterns), generator)]
        labels = balanced(size, 2, generator)
        order = torch.tensor([[0, 1, 2], [0, 2, 1]])[labels]
        return LetterPatterns(chosen[torch.arange(size)[:, None], order].flatten(1), labels)


@dataclass(frozen=True)
class RMTS(MatchToSample):
    """Relational match-to-sample with pairs: the match is a pair of equal objects exactly if the source is.

    >>> RMTS().objects, RMTS().segments
    (6, (2, 2, 2))
    """

    def rules(self, split: Split) -> tuple[str, ...]:
        return ("aa bb cd", "ab cd ee")


@dataclass(frozen=True)
class Completion(ShapeTask):
    """A row, a second row without its last object, and candidates; the label is the candidate that completes it."""

    @property
    @abstractmethod
    def row(self) -> int:
        """Number of objects of a complete row."""

    @property
    @abstractmethod
    def candidates(self) -> int:
        """Number of candidates."""

    @property
    def answers(self) -> tuple[str, ...]:
        return tuple(f"candidate {number}" for number in range(self.candidates))

    @property
    def parts(self) -> tuple[int, ...]:
        return (self.row, self.row - 1 + self.candidates)  # the candidates belong to the row that they complete

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(self.images_each * row for row in (self.row, self.row - 1, self.candidates))

    def needed(self, split: Split) -> int:
        return self.candidates

    def completed(
        self, first: Int[Tensor, "size row"], second: Int[Tensor, "size row"], generator: Generator
    ) -> LetterPatterns:
        """Return problems with all letters as candidates in random order; the place of the right one is balanced."""
        labels = balanced(len(first), self.choices, generator)
        candidates = candidates_with_answer(second[:, -1], labels, self.choices, generator)
        return LetterPatterns(torch.cat([first, second[:, :-1], candidates], 1), labels)


@dataclass(frozen=True)
class IdentityRules(Completion):
    """A row that follows a rule, a row of other objects without its last, and candidates to complete it by that rule.

    The candidates are the shapes of both rows and further shapes, four in total.
    """

    def rules(self, split: Split) -> tuple[str, ...]:
        """Return the rules of a split as rows; the last object of a row equals an earlier one."""
        return ("aaa", "aba", "abb")

    @property
    def candidates(self) -> int:
        return 4

    @property
    def row(self) -> int:
        return len(self.rules("train")[0])

    def problems(self, size: int, generator: Generator, split: Split) -> LetterPatterns:
        rows = parse_patterns(*self.rules(split))
        first = rows[balanced(size, len(rows), generator)]
        second = first + first.amax(1, keepdim=True) + 1  # the next letters
        return self.completed(first, second, generator)


Restricted = Literal["no", "thesis", "code"]


@dataclass(frozen=True)
class DistributionOfN(Completion):
    """n objects, the same objects in another order without the last, and n + 1 candidates for the last.

    Kerg, 5.4.1 for n = 3, and C.4. The candidates are the n objects and a new one, in random order.

    `restricted` holds out orders. With "thesis", training uses the orders that keep the set of the first n - 3 objects,
    and the test uses all others. The released "code" exchanges the two.

    >>> DistributionOfN(n=10, m=89, restricted="thesis").objects
    30
    """

    n: int = 3
    restricted: Restricted = "no"

    def __post_init__(self) -> None:
        if self.restricted not in get_args(Restricted):
            raise ValueError(f'restricted must be "no", "thesis" or "code", but is {self.restricted!r}.')
        check_whole(2, n=self.n)
        if self.restricted != "no" and self.n < 4:
            raise ValueError(
                f"Restricted orders keep the first n - 3 objects first, but there are none for n = {self.n}: give 4 or "
                'more, or restricted="no".'
            )
        super().__post_init__()

    @property
    def held_out(self) -> tuple[str, ...]:
        return (*super().held_out, *(["orders"] if self.restricted != "no" else []))

    @property
    def row(self) -> int:
        return self.n

    @property
    def candidates(self) -> int:
        return self.n + 1

    def problems(self, size: int, generator: Generator, split: Split) -> LetterPatterns:
        order = self._orders(size, generator, split)
        return self.completed(torch.arange(self.n).expand(size, self.n), order, generator)

    def _orders(self, size: int, generator: Generator, split: Split) -> Int[Tensor, "size n"]:
        if self.restricted == "no":
            return permutations(size, self.n, generator)
        if (self.restricted == "thesis") == (split != "test"):
            first = permutations(size, self.n - 3, generator)
            return torch.cat([first, self.n - 3 + permutations(size, 3, generator)], 1)
        order = permutations(size, self.n, generator)
        while (again := self._keeps(order)).any():  # at most one order in four does
            order[again] = permutations(int(again.sum()), self.n, generator)
        return order

    def _keeps(self, order: Int[Tensor, "size n"]) -> Bool[Tensor, " size"]:
        """Return which orders permute the first n - 3 objects among themselves."""
        return (order[:, : self.n - 3] < self.n - 3).all(1)
