"""Copying of strings of random length, with the string given and copied by letters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.tasks.tokens.string_task import StringTask, Timing


@dataclass(frozen=True)
class StringCopy(StringTask):
    """`$string|string.`: the next letter of the copy is due at each step from the bar on, then the full stop.

    Lengths, training and tests are those of `StringTask`: by default 5 to 20 letters in training, 10 to 19 in tests.

    >>> print(StringCopy(test_shortest=3, test_longest=5).example(seed=1, split="test"))
    input   $ b p f | b p f
    target  · · · · b p f .
    """

    def longest_example(self, length: int) -> int:
        return 2 * length + 3

    def example_of(self, string: Int[Tensor, " length"], generator: torch.Generator) -> tuple[list[int], list[int]]:
        letters = string.tolist()
        return [*letters, self.bar], letters

    def timings(self) -> Iterator[Timing]:
        """Yield when answers are due: a string of n letters ends at step 2 n + 1."""
        lengths = range(self.test_shortest, self.test_longest + 1)
        return (Timing(length + 1, 2 * length + 1, 1 / len(lengths)) for length in lengths)
