"""Relational tasks of cognitive tests: same or different, match to sample, identity rules (Kerg, 5.4.1)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.tasks.relational.shape_task import Problems, ShapeTask
from mnemoscope.tasks.relational.task import balanced, letters, shuffled_with
from mnemoscope.tasks.splits import Split


@dataclass(frozen=True)
class SameDifferent(ShapeTask):
    """Two objects: 0 if they are the same, 1 if they are different.

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

    def problems(self, size: int, generator: Generator, split: Split) -> Problems:
        labels = balanced(size, 2, generator)
        return Problems(letters("aa", "ab")[labels], labels)


@dataclass(frozen=True)
class MatchToSample(ShapeTask):
    """A source and two targets: which target (0 or 1) has the same relations within it as the source."""

    @abstractmethod
    def rules(self, split: Split) -> tuple[str, ...]:
        """The problems of a split as patterns "source match other"; which target comes first is drawn."""

    @property
    def answers(self) -> tuple[str, ...]:
        return ("target 0", "target 1")

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple(len(part) for part in self.rules("train")[0].split())

    def needed(self, split: Split) -> int:
        return len(set("".join(self.rules(split))) - {" "})

    def problems(self, size: int, generator: Generator, split: Split) -> Problems:
        patterns = letters(*self.rules(split)).unflatten(1, (3, -1))  # (rules, 3, objects)
        chosen = patterns[balanced(size, len(patterns), generator)]
        labels = balanced(size, 2, generator)
        order = torch.tensor([[0, 1, 2], [0, 2, 1]])[labels]
        return Problems(chosen[torch.arange(size)[:, None], order].flatten(1), labels)


@dataclass(frozen=True)
class RMTS(MatchToSample):
    """Relational match-to-sample with pairs: which target is two of the same, or two different ones, as the source is.

    >>> RMTS().objects, RMTS().segments
    (6, (2, 2, 2))
    """

    def rules(self, split: Split) -> tuple[str, ...]:
        return ("aa bb cd", "ab cd ee")


@dataclass(frozen=True)
class Completion(ShapeTask):
    """A row, another row without its last, and candidates: which of them (counted from 0) is that last."""

    @property
    @abstractmethod
    def row(self) -> int:
        """Objects of a whole row."""

    @property
    @abstractmethod
    def candidates(self) -> int:
        """Objects to choose from."""

    @property
    def answers(self) -> tuple[str, ...]:
        return tuple(f"candidate {number}" for number in range(self.candidates))

    @property
    def parts(self) -> tuple[int, ...]:
        return (self.row, self.row - 1 + self.candidates)  # what is chosen from belongs to what it completes

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(self.images_each * row for row in (self.row, self.row - 1, self.candidates))

    def completed(
        self, first: Int[Tensor, "size row"], second: Int[Tensor, "size row"], generator: Generator
    ) -> Problems:
        """Problems whose candidates are all letters, in random order but for the right one, balanced over places."""
        labels = balanced(len(first), self.choices, generator)
        candidates = shuffled_with(second[:, -1], labels, self.choices, generator)
        return Problems(torch.cat([first, second[:, :-1], candidates], 1), labels)


@dataclass(frozen=True)
class IdentityRules(Completion):
    """A row by a rule, a row of other objects without its last, and candidates, one of which completes it by the rule.

    The candidates are all shapes of the problem: those of both rows, and as many more as make four.
    """

    def rules(self, split: Split) -> tuple[str, ...]:
        """Rows by which the problems of a split are made; the last object of each is one of those before it."""
        return ("aaa", "aba", "abb")

    @property
    def candidates(self) -> int:
        return 4

    @property
    def row(self) -> int:
        return len(self.rules("train")[0])

    def needed(self, split: Split) -> int:
        return self.candidates

    def problems(self, size: int, generator: Generator, split: Split) -> Problems:
        rows = letters(*self.rules(split))
        first = rows[balanced(size, len(rows), generator)]
        second = first + first.amax(1, keepdim=True) + 1  # the next letters
        return self.completed(first, second, generator)
