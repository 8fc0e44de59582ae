"""Look-ups of n-grams in strings: what follows a few letters of a string."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.tokens.string_task import StringTask, Timing

MOST_DRAWS = 1000
"""Strings that are drawn at most until one has an n-gram that occurs once."""


@dataclass(frozen=True)
class NgramRecall(StringTask):
    """`$string|ngram answer.`: after a string and `ngram` letters of it, those that follow them in the string are due.

    With `ngram_first` the n-gram comes before the string, `$ngram|string|answer.`. The answer has `answer` letters, or
    all up to the end of the string if `answer` is 0. The place of the n-gram is uniform among those that leave three
    letters or more after it, and after an answer of a given length; if its letters occur more than once, the first
    occurrence counts. A string without an n-gram that occurs once is drawn again; the published code fails after ten.

    >>> print(NgramRecall(test_shortest=9, test_longest=9, ngram=2, answer=3).example(seed=1, split="test"))
    input   $ b p f o o t k e v | p f o o t
    target  · · · · · · · · · · · · o o t .
    """

    shortest: int = 10
    ngram: int = 3
    answer: int = 0
    ngram_first: bool = False

    def __post_init__(self) -> None:
        check_whole(1, ngram=self.ngram)
        check_whole(0, answer=self.answer)
        super().__post_init__()

    @property
    def least_length(self) -> int:
        return self.ngram + self.answer + 3

    @property
    def first_is_visible(self) -> bool:
        """Whether a bar precedes the answer, as it does not after an n-gram."""
        return self.ngram_first

    def places(self, length: int) -> int:
        """Return the number of places at which the n-gram may begin, of those at which it is searched for."""
        return length - self.ngram - self.answer - 2

    def longest_example(self, length: int) -> int:
        return length + self.ngram + (self.answer or length - self.ngram) + 3 + int(self.ngram_first)

    def draw_string(self, length: int, generator: torch.Generator) -> Int[Tensor, " length"]:
        for _ in range(MOST_DRAWS):
            string = super().draw_string(length, generator)
            if 1 in Counter(self._ngrams(string.tolist())).values():
                return string
        raise ValueError(
            f"No {self.ngram}-gram of {self.letters} letters occurs once in {MOST_DRAWS} strings of length {length}: "
            f"choose a larger ngram, more letters, or shorter strings."
        )

    def example_of(self, string: Int[Tensor, " length"], generator: torch.Generator) -> tuple[list[int], list[int]]:
        letters = string.tolist()
        known = self._ngrams(letters)
        ngram = known[int(torch.randint(self.places(len(letters)), (), generator=generator))]
        begin = known.index(ngram) + self.ngram
        answer = letters[begin : begin + self.answer] if self.answer else letters[begin:]
        question = [*ngram, self.bar, *letters, self.bar] if self.ngram_first else [*letters, self.bar, *ngram]
        return question, answer

    def _ngrams(self, letters: list[int]) -> list[tuple[int, ...]]:
        """Return the n-grams that are counted and searched for: one more than the places of the one asked for."""
        return [tuple(letters[place : place + self.ngram]) for place in range(self.places(len(letters)) + 1)]

    def timings(self) -> Iterator[Timing]:
        """Yield when answers are due, if no n-gram occurs twice."""
        lengths = range(self.test_shortest, self.test_longest + 1)
        for length in lengths:
            first = length + self.ngram + 1 + int(self.ngram_first)
            for place in range(self.places(length)):
                size = self.answer or length - self.ngram - place
                yield Timing(first, first + size, 1 / len(lengths) / self.places(length))

    def baseline(self) -> float:
        """Return the loss of a predictor that sees the token and the time, if no n-gram occurs twice.

        N-grams of few letters do occur twice, which makes some answers a little more probable than others.
        """
        return super().baseline()

    def chance(self) -> float:
        """Return the chance of a letter, if no n-gram occurs twice; for two or three letters it is a little higher."""
        return super().chance()
