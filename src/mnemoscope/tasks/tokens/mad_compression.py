"""Compression of MAD: a sequence of random tokens that is decoded from the output at its last step."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

import torch

from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.task import Batch
from mnemoscope.tasks.tokens.mad_task import MadTask


@dataclass(frozen=True)
class MadCompression(MadTask):
    """`length` - 1 random tokens and a compression token; all of them are decoded from the output at the last step.

    The compression token is the last of the vocabulary. Targets are the inputs, and every place counts, as published,
    also that of the compression token. `build_model` gives a network a `SequenceDecoder` as readout. Baseline and
    chance are those of a predictor that sees the last input, which is always the same, and the place.

    >>> print(MadCompression(vocabulary=6, length=8).example(seed=1))
    input   3 1 1 2 0 2 3 c
    target  3 1 1 2 0 2 3 c
    """

    vocabulary: int = 16
    length: int = 32

    pointwise: ClassVar[bool] = False
    decoded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(3, vocabulary=self.vocabulary)
        check_whole(2, length=self.length)

    def label(self, token: int, /) -> str:
        return "c" if token == self.vocabulary - 1 else str(token)

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        tokens = torch.randint(self.vocabulary - 1, (self.length, batch), generator=generator)
        tokens[-1] = self.vocabulary - 1
        return Batch(tokens, tokens.clone(), torch.ones(tokens.shape, dtype=torch.bool))

    def baseline(self) -> float:
        """Return the mean of `log(vocabulary - 1)` at the random tokens and 0 at the last one."""
        return (self.length - 1) / self.length * log(self.vocabulary - 1)

    def chance(self) -> float:
        return ((self.length - 1) / (self.vocabulary - 1) + 1) / self.length
