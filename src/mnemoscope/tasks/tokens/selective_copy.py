"""Selective copying: data tokens scattered among noise, then markers at which the data are due in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import ClassVar

import torch

from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.task import Batch
from mnemoscope.tasks.tokens.fixed_length import FixedLengthTask

NOISE = 0
"""Token between the data."""


@dataclass(frozen=True)
class SelectiveCopy(FixedLengthTask):
    """`data` random tokens at random places among `length` steps of noise, then as many markers, where they are due.

    The token 0 is noise, the last token of the vocabulary is the marker, and the others are data. Gu & Dao 2024,
    section 4.1.1, with 16 data tokens in 4,096 steps and a vocabulary of 16. Its generator is not published; this is
    the copying task of state-spaces/s4 with `variable`, of which `length` is the sum of noise and data.

    >>> print(SelectiveCopy(length=10, data=3, vocabulary=8).example(seed=1))
    input   0 0 0 1 0 0 0 5 1 0 m m m
    target  · · · · · · · · · · 1 5 1
    """

    length: int = 4096
    data: int = 16
    vocabulary: int = 16

    load_label: ClassVar[str] = "number of data tokens"

    def __post_init__(self) -> None:
        check_whole(1, data=self.data)
        check_whole(4, vocabulary=self.vocabulary)
        if self.length < self.data:
            raise ValueError(f"{self.data} data tokens need as many steps, but the length is {self.length}.")

    @property
    def largest_load(self) -> int:
        return self.data

    def with_load(self, data: int, /) -> SelectiveCopy:
        return replace(self, data=data)

    def label(self, token: int, /) -> str:
        return "m" if token == self.vocabulary - 1 else str(token)

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        data = torch.randint(1, self.vocabulary - 1, (self.data, batch), generator=generator)
        places = torch.rand(self.length, batch, generator=generator).topk(self.data, dim=0).indices.sort(0).values
        shown = torch.full((self.length, batch), NOISE).scatter_(0, places, data)
        inputs = torch.cat([shown, torch.full((self.data, batch), self.vocabulary - 1)])
        mask = torch.zeros(inputs.shape, dtype=torch.bool)
        mask[self.length :] = True
        return Batch(inputs, torch.cat([torch.zeros_like(shown), data]), mask)

    def baseline(self) -> float:
        """Return the logarithm of the number of data tokens, which are uniform."""
        return log(self.vocabulary - 2)

    def chance(self) -> float:
        return 1 / (self.vocabulary - 2)
