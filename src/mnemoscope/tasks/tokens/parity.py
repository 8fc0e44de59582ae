"""Parity: the number of ones, modulo 2."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.tokens.formal_language import FormalLanguage

PADDING = 0
"""Token after the last step."""


@dataclass(frozen=True)
class Parity(FormalLanguage):
    """Random digits below `modulus`; at the last one their sum is due, modulo `modulus`. With 2, it is parity.

    A sequence of length n has n - 1 digits. No token announces the end: only there an answer counts. Digit d is the
    token d + 1, and the token 0 is padding. `WordProblem` with the group Z2 asks for the parity at every step instead.

    >>> print(Parity(longest=8).example(seed=3))
    input   1 1 1 1 0 0 1
    target  · · · · · · 1
    """

    modulus: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(2, modulus=self.modulus)

    @property
    def input_size(self) -> int:
        return self.modulus + 1

    @property
    def padding(self) -> int:
        return PADDING

    @property
    def rest(self) -> int:
        """The digit 0, which changes no sum."""
        return 1

    def label(self, token: int, /) -> str:
        return "_" if token == PADDING else str(token - 1)

    def draw(
        self, lengths: Int[Tensor, " batch"], generator: torch.Generator
    ) -> tuple[Int[Tensor, "time batch"], Int[Tensor, " batch"], Int[Tensor, " batch"]]:
        digits = torch.randint(self.modulus, (self.longest - 1, len(lengths)), generator=generator)
        shown = torch.arange(len(digits)).unsqueeze(1) < lengths - 1
        answers = (digits * shown).sum(0) % self.modulus
        return torch.where(shown, 1 + digits, PADDING), 1 + answers, lengths - 2

    def baseline(self) -> float:
        """Return `log(modulus)`: the sum of the earlier digits is uniform."""
        return log(self.modulus)

    def chance(self) -> float:
        return 1 / self.modulus
