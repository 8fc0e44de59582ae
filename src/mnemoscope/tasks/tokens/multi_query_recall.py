"""Multi-query associative recall (MQAR): many keys with their values, then the keys again among other tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.task import Batch
from mnemoscope.tasks.tokens.task import TokenTask

SHORTEST, STEPS_PER_PAIR = 64, 4
"""Length of the sequences with few pairs, and steps for each pair in longer ones, as in the published tests."""
SPARSE = 16
"""Least number of tokens for each pair at which repeated tokens are drawn again; otherwise all are put in order."""


@dataclass(frozen=True)
class MultiQueryRecall(TokenTask):
    """`pairs` keys with their values in turn, then every key once more, at which its value is due; MQAR.

    Keys are tokens from 1 to vocabulary / 2 - 1, values are the second half of the vocabulary, and neither repeats
    within a sequence. The rest of the `length` steps are slots of two, and a key comes at the first step of a slot. The
    slots of the keys are drawn without repetition, slot i with a weight of `i^(power - 1)`, so that most keys return
    soon; with a `power` of 1 all slots are alike. All other steps hold the token 0, or if `random_fillers` any token of
    the vocabulary, also keys. Arora et al. 2024; code: HazyResearch/zoology, which draws its training sequences once.

    `mixture` has further pairs of length and pairs for training, such as "128:8 256:16": each batch has one of them
    or the first setting, all equally often; a setting may be repeated. Tests have `length` and `pairs`.

    >>> task = MultiQueryRecall(vocabulary=20, pairs=2, length=12, random_fillers=False)
    >>> print(task.example(seed=1))
    input    3 10  9 17  9  0  3
    target   ·  ·  ·  · 17  · 10
    """

    pairs: int = 4
    length: int = SHORTEST
    vocabulary: int = 8192
    power: float = 0.01
    random_fillers: bool = True
    mixture: str = ""

    span_label: ClassVar[str] = "number of pairs"
    load_label: ClassVar[str] = "number of pairs"

    def __post_init__(self) -> None:
        check_whole(1, pairs=self.pairs)
        if not 0 < self.power <= 1:
            raise ValueError(f"power must be above 0 and at most 1, but is {self.power}.")
        for length, pairs in self.settings():
            if length % 2 or length < STEPS_PER_PAIR * pairs:
                raise ValueError(
                    f"{pairs} pairs and their queries need a length of at least {STEPS_PER_PAIR * pairs} that is even, "
                    f"but it is {length}."
                )
            if pairs > self.keys:
                raise ValueError(
                    f"Keys differ, so that {pairs} pairs need a vocabulary of at least {2 * pairs + 2}, but it has "
                    f"{self.vocabulary}."
                )

    def settings(self) -> tuple[tuple[int, int], ...]:
        """Return length and number of pairs of the training batches, with repetitions."""
        try:
            further = [tuple(map(int, word.split(":"))) for word in self.mixture.replace(",", " ").split()]
            return ((self.length, self.pairs), *((length, pairs) for length, pairs in further))
        except ValueError:
            raise ValueError(
                f'A mixture is a list of lengths and pairs such as "128:8 256:16", but is {self.mixture!r}.'
            ) from None

    @property
    def keys(self) -> int:
        """Number of different keys, the tokens 1 to this number."""
        return self.vocabulary // 2 - 1

    @property
    def input_size(self) -> int:
        return self.vocabulary

    @property
    def longest_span(self) -> int:
        return max(pairs for _, pairs in self.settings())

    def at(self, pairs: int, /) -> MultiQueryRecall:
        """Return the task with this number of pairs, in 64 steps or 4 for each pair, as in the published tests."""
        length = max(min(SHORTEST, self.length), STEPS_PER_PAIR * pairs)
        return replace(self, pairs=pairs, length=length, mixture="")

    def held_out(self) -> MultiQueryRecall:
        return replace(self, mixture="")

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        settings = self.settings()
        length, pairs = settings[int(torch.randint(len(settings), (), generator=generator))]
        half, context = self.vocabulary // 2, 2 * pairs
        keys = 1 + _distinct(half - 1, pairs, batch, generator)
        values = half + _distinct(self.vocabulary - half, pairs, batch, generator)
        places = torch.arange(1, (length - context) // 2 + 1, dtype=torch.float64) ** (self.power - 1)
        due = context + 2 * _weighted(places, pairs, batch, generator)

        inputs = torch.zeros(length, batch, dtype=torch.long)
        if self.random_fillers:
            inputs = torch.randint(self.vocabulary, inputs.shape, generator=generator)
        inputs[0:context:2], inputs[1:context:2] = keys, values
        inputs.scatter_(0, due, keys)
        targets = torch.zeros_like(inputs).scatter_(0, due, values)
        mask = torch.zeros(inputs.shape, dtype=torch.bool).scatter_(0, due, torch.ones_like(due, dtype=torch.bool))
        return Batch(inputs, targets, mask)

    def sources(self, batch: Batch) -> Int[Tensor, "time batch"]:
        """Return the step at which the value due at each step was shown; -1 where nothing is due."""
        pairs = int(batch.mask[:, 0].sum())
        same = batch.inputs.unsqueeze(1) == batch.inputs[0 : 2 * pairs : 2]  # (time, pairs, batch)
        return torch.where(batch.mask, 2 * same.int().argmax(1) + 1, -1)

    def baseline(self) -> float:
        """Return the logarithm of the number of values: without memory, each is as probable at a key."""
        return log(self.vocabulary - self.vocabulary // 2)

    def chance(self) -> float:
        return 1 / (self.vocabulary - self.vocabulary // 2)


def _distinct(among: int, number: int, batch: int, generator: torch.Generator) -> Int[Tensor, "number batch"]:
    """Draw different numbers below `among`, all orders alike.

    Of many numbers few are equal, so that it is fast to draw those again that repeat an earlier one. No number is
    preferred on the way, so that all orders of different numbers are equally probable in the end.
    """
    if among < SPARSE * number:
        return _weighted(torch.ones(among), number, batch, generator)
    drawn = torch.randint(among, (number, batch), generator=generator)
    while (again := _repeats(drawn)).any():
        drawn[again] = torch.randint(among, (int(again.sum()),), generator=generator)
    return drawn


def _repeats(numbers: Int[Tensor, "number batch"]) -> Bool[Tensor, "number batch"]:
    """Return which numbers equal an earlier one of their column."""
    ordered = numbers.sort(dim=0, stable=True)
    equal = torch.zeros_like(numbers, dtype=torch.bool)
    equal[1:] = ordered.values[1:] == ordered.values[:-1]
    return torch.zeros_like(equal).scatter_(0, ordered.indices, equal)


def _weighted(
    weights: Float[Tensor, " among"], number: int, batch: int, generator: torch.Generator
) -> Int[Tensor, "number batch"]:
    """Draw places without repetition, in the order of draws: each in proportion to its weight among those left.

    The race of exponential times with rates `weights` has this order: the smallest times come first.
    """
    times = torch.empty(batch, len(weights), dtype=weights.dtype).exponential_(generator=generator) / weights
    return times.topk(number, dim=1, largest=False).indices.T.contiguous()
