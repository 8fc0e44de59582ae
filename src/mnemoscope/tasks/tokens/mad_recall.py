"""In-context recall of MAD, without and with noise: pairs of keys and values, in which keys return."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.task import Batch
from mnemoscope.tasks.tokens.mad_task import MadTask


@dataclass(frozen=True)
class MadRecall(MadTask):
    """`length` / 2 pairs of a random key and its value; the value is due at every key that was shown before.

    Keys are the first half of the vocabulary, values the second. A key has the same random value throughout a sequence.
    The last pair has a key that was shown before, and its value is no input. In training every next token is a target,
    as published; with `next_tokens` False only those of the tests are.

    >>> print(MadRecall(vocabulary=6, length=12, next_tokens=False).example(seed=1))
    input   0 5 1 3 1 3 0 5 1 3 1
    target  · · · · 3 · 5 · 3 · 3
    """

    vocabulary: int = 16
    length: int = 128
    next_tokens: bool = True

    noise_tokens: ClassVar[int] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(4, vocabulary=self.vocabulary, length=self.length)
        if self.length % 2:
            raise ValueError(f"A sequence of pairs has an even length, but it is {self.length}.")

    @property
    def input_size(self) -> int:
        return self.vocabulary + self.noise_tokens

    def held_out(self) -> MadRecall:
        return replace(self, next_tokens=False)

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        pairs, half = self.length // 2, self.vocabulary // 2
        keys = torch.randint(half, (pairs, batch), generator=generator)
        values = half + torch.randint(self.vocabulary - half, (half, batch), generator=generator)
        noisy = self._noisy(pairs, batch, generator)
        shown = torch.nn.functional.one_hot(keys, half).bool() & ~noisy.unsqueeze(2)
        shown[-1] = False
        seen = shown.cumsum(0).bool()
        keys[-1] = torch.rand(batch, half, generator=generator).masked_fill(~seen[-1], -1).argmax(1)
        before = torch.cat([torch.zeros_like(seen[:1]), seen[:-1]]).gather(2, keys.unsqueeze(2)).squeeze(2)
        tokens = torch.stack([keys, values.gather(0, keys)], 1)
        noise = self.vocabulary + torch.randint(max(self.noise_tokens, 1), tokens.shape, generator=generator)
        tokens = torch.where(noisy.unsqueeze(1), noise, tokens).flatten(0, 1)
        mask = torch.stack([before & ~noisy, torch.zeros_like(before)], 1).flatten(0, 1)[:-1]
        return Batch(tokens[:-1], tokens[1:].clone(), torch.ones_like(mask) if self.next_tokens else mask)

    def _noisy(self, pairs: int, batch: int, generator: torch.Generator) -> Bool[Tensor, "pairs batch"]:
        """Return the pairs that are noise."""
        return torch.zeros(pairs, batch, dtype=torch.bool)

    def baseline(self) -> float:
        """Return the logarithm of the number of values: without memory, each is as probable at a key."""
        return log(self.vocabulary - self.vocabulary // 2)

    def chance(self) -> float:
        return 1 / (self.vocabulary - self.vocabulary // 2)


@dataclass(frozen=True)
class MadNoisyRecall(MadRecall):
    """`MadRecall` in which a pair is two random noise tokens with the probability `noise`.

    The noise has 16 further tokens, after the `vocabulary` of keys and values; the published size of the vocabulary,
    32, includes them. The last pair and a random one of the others are never noise.

    >>> print(MadNoisyRecall(vocabulary=6, length=12, noise=0.4, next_tokens=False).example(seed=1))
    input    n4  n5 n11 n14   1   3  n1 n13 n13  n0   1
    target    ·   ·   ·   ·   ·   ·   ·   ·   ·   ·   3
    """

    noise: float = 0.2

    noise_tokens: ClassVar[int] = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.noise < 1:
            raise ValueError(f"noise must be at least 0 and below 1, but is {self.noise}.")

    def label(self, token: int, /) -> str:
        return str(token) if token < self.vocabulary else f"n{token - self.vocabulary}"

    def _noisy(self, pairs: int, batch: int, generator: torch.Generator) -> Bool[Tensor, "pairs batch"]:
        noisy = torch.rand(pairs, batch, generator=generator) < self.noise
        kept: Int[Tensor, " batch"] = torch.randint(pairs - 1, (batch,), generator=generator)
        noisy[kept, torch.arange(batch)] = False
        noisy[-1] = False
        return noisy
