"""The base class of tasks on strings of letters: `$`, a question with bars, its answer in letters, and `.`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.bit_task import check_range
from mnemoscope.tasks.task import Batch
from mnemoscope.tasks.tokens.task import TokenTask

LETTERS = "abcdefghijklmnopqrstuvwxyz"
START, BAR, END, PADDING = range(4)
"""Special tokens, which follow the letters."""


class Timing(NamedTuple):
    """Steps of an example at which an answer is due, from the first to the one of the full stop."""

    first: int
    last: int
    probability: float


@dataclass(frozen=True)
class StringTask(TokenTask):
    """Base class of tasks whose answers are strings: the next letter is due at each step, then the full stop.

    Lengths of strings are uniform, from `shortest` to `longest` in training and from `test_shortest` to `test_longest`
    in tests. Training sequences have `context` steps, filled with consecutive examples; the last one is cut off and
    does not count. Tests have one example each. Jelassi et al. 2024; code: sjelassi/transformers_ssm_copy.
    """

    shortest: int = 5
    longest: int = 20
    test_shortest: int = 10
    test_longest: int = 19
    letters: int = 26
    context: int = 220
    packed: bool = True

    span_label: ClassVar[str] = "length"
    pointwise: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_range("length", self.shortest, self.longest, lowest=self.least_length)
        check_range("length of a test", self.test_shortest, self.test_longest, lowest=self.least_length)
        if not 2 <= self.letters <= len(LETTERS):
            raise ValueError(f"letters must be from 2 to {len(LETTERS)}, but is {self.letters}.")
        check_whole(1, context=self.context)
        needed = self.longest_example(self.longest)
        if self.packed and self.context < needed:
            raise ValueError(
                f"A string of {self.longest} letters and its answer need a context of {needed} steps, but it has "
                f"{self.context}."
            )

    @property
    def first_is_visible(self) -> bool:
        """Whether the input shows that an answer begins, as a bar does."""
        return True

    @property
    def least_length(self) -> int:
        """Least number of letters of a string."""
        return 1

    @abstractmethod
    def longest_example(self, length: int) -> int:
        """Return the most tokens of an example with a string of this length."""

    @abstractmethod
    def example_of(self, string: Int[Tensor, " length"], generator: torch.Generator) -> tuple[list[int], list[int]]:
        """Return the tokens of a question about a string, after `$`, and those of its answer, without the full stop."""

    @abstractmethod
    def timings(self) -> Iterator[Timing]:
        """Yield when answers are due in tests."""

    @property
    def bar(self) -> int:
        """Token that separates the parts of an example."""
        return self.letters + BAR

    @property
    def input_size(self) -> int:
        return self.letters + 4

    @property
    def padding(self) -> int:
        return self.rest

    @property
    def rest(self) -> int:
        """The padding."""
        return self.letters + PADDING

    @property
    def longest_span(self) -> int:
        return self.longest

    def at(self, length: int, /) -> Any:
        context = max(self.context, self.longest_example(length))
        return replace(
            self, shortest=length, longest=length, test_shortest=length, test_longest=length, context=context
        )

    def held_out(self) -> Any:
        return replace(self, shortest=self.test_shortest, longest=self.test_longest, packed=False)

    def label(self, token: int, /) -> str:
        return LETTERS[token] if token < self.letters else "$|._"[token - self.letters]

    def draw_string(self, length: int, generator: torch.Generator) -> Int[Tensor, " length"]:
        """Draw letters."""
        return torch.randint(self.letters, (length,), generator=generator)

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        steps = self.context if self.packed else self.longest_example(self.longest)
        rows, answers = [], []
        for _ in range(batch):  # lists, which are much faster to fill than tensors
            row: list[int] = []
            counted = [False] * steps
            while len(row) < steps:
                length = int(torch.randint(self.shortest, self.longest + 1, (), generator=generator))
                question, answer = self.example_of(self.draw_string(length, generator), generator)
                first = len(row) + 1 + len(question)
                row += [self.letters + START, *question, *answer, self.letters + END]
                if len(row) <= steps:
                    counted[first : len(row)] = [True] * (len(answer) + 1)
                if not self.packed:
                    break
            rows.append(row[:steps] + [self.rest] * (steps - len(row)))
            answers.append(counted)
        tokens, mask = torch.tensor(rows).T, torch.tensor(answers).T
        return Batch(tokens[:-1].contiguous(), tokens[1:].contiguous(), mask[1:].contiguous())

    def recalled(self, batch: Batch) -> Bool[Tensor, "time batch"]:
        """Return the steps at which letters are due; full stops count in the loss, but not in the scores."""
        return batch.mask & (batch.targets != self.letters + END)

    def scores(self, outputs: Float[Tensor, "time batch tokens"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of right letters, and `string accuracy`, the one of sequences without error.

        The full stop does not count in either, as published.
        """
        counted = self.recalled(batch)
        right = outputs.argmax(-1) == batch.targets
        whole = (right | ~counted).all(0)
        return {"accuracy": right[counted].double().mean().item(), "string accuracy": whole.double().mean().item()}

    def baseline(self) -> float:
        """Return the loss of a predictor that sees the token and the time.

        Letters are uniform. Where an answer is seen to begin, a letter is due; elsewhere, the time gives the
        probability that the answer has ended.
        """
        steps = self.longest_example(self.test_longest)
        counted, ended = [0.0] * steps, [0.0] * steps
        total = number = 0.0
        for first, last, probability in self.timings():
            number += probability * (last - first + 1)
            if self.first_is_visible:
                total += probability * log(self.letters)
            for step in range(first + int(self.first_is_visible), last + 1):
                counted[step] += probability
            ended[last] += probability
        for running, stopping in zip(counted, ended, strict=True):
            end = stopping / running if running else 0.0
            entropy = -sum(chance * log(chance) for chance in (end, 1 - end) if chance > 0)
            total += running * (entropy + (1 - end) * log(self.letters))
        return total / number

    def chance(self) -> float:
        """Return the chance of a letter; full stops do not count."""
        return 1 / self.letters
