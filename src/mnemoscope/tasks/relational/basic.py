"""Relational tasks from cognitive tests: same/different, match-to-sample, identity rules (Kerg, 5.4.1)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.tasks.relational.shape_task import LetterPatterns, ShapeTask
from mnemoscope.tasks.relational.task import balanced, candidates_with_answer, parse_patterns
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
