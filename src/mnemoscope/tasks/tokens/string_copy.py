"""Copying of strings of random length, with the string given and copied by letters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.bit_task import check_range
from mnemoscope.tasks.task import Batch
from mnemoscope.tasks.tokens.task import TokenTask

LETTERS = "abcdefghijklmnopqrstuvwxyz"
START, BAR, END, PADDING = range(4)
"""Special tokens, which follow the letters."""


@dataclass(frozen=True)
class StringCopy(TokenTask):
    """`$string|string.`: the next letter of the copy is due at each step from the bar on, then the full stop.

    Lengths of strings are uniform, from `shortest` to `longest` in training and from `test_shortest` to `test_longest`
    in tests. Training sequences have `context` steps, filled with consecutive examples; the last one is cut off and
    does not count. Tests have one example each. Jelassi et al. 2024; code: sjelassi/transformers_ssm_copy.

    >>> print(StringCopy(test_shortest=3, test_longest=5).example(seed=1, split="test"))
    input   $ b p f | b p f
    target  · · · · b p f .
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
        check_range("length", self.shortest, self.longest)
        check_range("length of a test", self.test_shortest, self.test_longest)
        if not 2 <= self.letters <= len(LETTERS):
            raise ValueError(f"letters must be from 2 to {len(LETTERS)}, but is {self.letters}.")
        check_whole(1, context=self.context)
        if self.packed and self.context < 2 * self.longest + 3:
            raise ValueError(
                f"A string of {self.longest} letters and its copy need a context of {2 * self.longest + 3} steps, but "
                f"it has {self.context}."
            )

    @property
    def input_size(self) -> int:
        return self.letters + 4

    @property
    def rest(self) -> int:
        """The padding."""
        return self.letters + PADDING

    @property
    def longest_span(self) -> int:
        return self.longest

    def at(self, length: int, /) -> StringCopy:
        context = max(self.context, 2 * length + 3)
        return replace(
            self, shortest=length, longest=length, test_shortest=length, test_longest=length, context=context
        )

    def held_out(self) -> StringCopy:
        return replace(self, shortest=self.test_shortest, longest=self.test_longest, packed=False)

    def label(self, token: int, /) -> str:
        return LETTERS[token] if token < self.letters else "$|._"[token - self.letters]

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        steps = self.context if self.packed else 2 * self.longest + 3
        tokens = torch.full((batch, steps), self.rest)
        counted = torch.zeros(batch, steps, dtype=torch.bool)
        for row in range(batch):
            place = 0
            while place < steps:
                length = int(torch.randint(self.shortest, self.longest + 1, (), generator=generator))
                string = torch.randint(self.letters, (length,), generator=generator)
                start, bar, end = (torch.tensor([self.letters + sign]) for sign in (START, BAR, END))
                example = torch.cat([start, string, bar, string, end])[: steps - place]
                tokens[row, place : place + len(example)] = example
                if len(example) == 2 * length + 3:
                    counted[row, place + length + 2 : place + len(example)] = True
                place = place + len(example) if self.packed else steps
        inputs, targets, mask = tokens[:, :-1], tokens[:, 1:], counted[:, 1:]
        return Batch(*(part.T.contiguous() for part in (inputs, targets, mask)))

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

        At the bar, the first letter is uniform. Later, the time gives the probability that the string has ended: a
        string of n letters ends at step 2 n + 1.
        """
        lengths = range(self.test_shortest, self.test_longest + 1)
        total = len(lengths) * log(self.letters)
        for step in range(self.test_shortest + 2, 2 * self.test_longest + 2):
            running = [length for length in lengths if length + 2 <= step <= 2 * length + 1]
            ended = sum(step == 2 * length + 1 for length in running) / max(len(running), 1)
            entropy = -sum(chance * log(chance) for chance in (ended, 1 - ended) if chance)
            total += len(running) * (entropy + (1 - ended) * log(self.letters))
        return total / sum(length + 1 for length in lengths)

    def chance(self) -> float:
        """Return the chance of a letter; full stops do not count."""
        return 1 / self.letters
