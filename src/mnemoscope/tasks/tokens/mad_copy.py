"""Selective copying and memorisation of MAD."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.task import Batch
from mnemoscope.tasks.tokens.mad_task import MadTask


@dataclass(frozen=True)
class MadSelectiveCopy(MadTask):
    """`copied` random tokens with blanks between them, a marker, and blanks at which the tokens are due in order.

    Each blank comes before a random one of the tokens, so that none is between the last token and the marker. The last
    two tokens of the vocabulary are the blank and the marker. `length` counts all steps.

    >>> print(MadSelectiveCopy(vocabulary=6, length=12, copied=3).example(seed=1))
    input   _ _ 3 _ _ 0 _ 2 c _ _ _
    target  · · · · · · · · · 3 0 2
    """

    vocabulary: int = 16
    length: int = 256
    copied: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(1, copied=self.copied)
        check_whole(4, vocabulary=self.vocabulary)
        if self.length <= 2 * self.copied + 1:
            raise ValueError(
                f"{self.copied} tokens and their copies need a length above {2 * self.copied + 1}, but it is "
                f"{self.length}."
            )

    @property
    def rest(self) -> int:
        """The blank."""
        return self.vocabulary - 2

    def label(self, token: int, /) -> str:
        return {self.vocabulary - 2: "_", self.vocabulary - 1: "c"}.get(token, str(token))

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        tokens = torch.randint(self.vocabulary - 2, (self.copied, batch), generator=generator)
        blanks = self.length - 2 * self.copied - 1
        before = torch.randint(self.copied, (blanks, batch), generator=generator)
        counts = torch.zeros_like(tokens).scatter_add_(0, before, torch.ones_like(before))
        places = torch.arange(self.copied).unsqueeze(1) + counts.cumsum(0)
        inputs = torch.full((self.length, batch), self.rest).scatter_(0, places, tokens)
        inputs[-self.copied - 1] = self.vocabulary - 1
        targets = torch.zeros_like(inputs)
        targets[-self.copied :] = tokens
        mask = torch.zeros(inputs.shape, dtype=torch.bool)
        mask[-self.copied :] = True
        return Batch(inputs, targets, mask)

    def baseline(self) -> float:
        """Return the logarithm of the number of tokens that are copied, which are uniform."""
        return log(self.vocabulary - 2)

    def chance(self) -> float:
        return 1 / (self.vocabulary - 2)


@dataclass(frozen=True)
class MadMemorisation(MadTask):
    """Random keys, each followed by a question token, at which the value of the key is due: the same in all sequences.

    Keys are the first half of the vocabulary without its last token, values the second half, and no two keys
    have the same value. No input shows a value: a network must learn the map, which depends on `map_seed` alone.

    >>> print(MadMemorisation(vocabulary=8, length=8).example(seed=1))
    input   1 ? 1 ? 0 ? 0 ?
    target  · 4 · 4 · 3 · 3
    """

    vocabulary: int = 256
    length: int = 32
    examples: int = 256
    map_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(5, vocabulary=self.vocabulary)
        check_whole(0, map_seed=self.map_seed)
        check_whole(2, length=self.length)
        if self.length % 2:
            raise ValueError(f"A sequence of keys and questions has an even length, but it is {self.length}.")

    def label(self, token: int, /) -> str:
        return "?" if token == self.vocabulary - 1 else str(token)

    def values(self) -> Int[Tensor, " keys"]:
        """Return the value of each key."""
        keys = (self.vocabulary - 1) // 2
        order = torch.randperm(self.vocabulary - 1 - keys, generator=torch.Generator().manual_seed(self.map_seed))
        return keys + order[:keys]

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        values = self.values()
        keys = torch.randint(len(values), (self.length // 2, batch), generator=generator)
        inputs = torch.stack([keys, torch.full_like(keys, self.vocabulary - 1)], 1).flatten(0, 1)
        targets = torch.stack([torch.zeros_like(keys), values[keys]], 1).flatten(0, 1)
        mask = (torch.arange(self.length) % 2 == 1).unsqueeze(1).expand(-1, batch).clone()
        return Batch(inputs, targets, mask)

    def baseline(self) -> float:
        """Return the logarithm of the number of keys: the question does not show which one came before it."""
        return log((self.vocabulary - 1) // 2)

    def chance(self) -> float:
        return 1 / ((self.vocabulary - 1) // 2)
