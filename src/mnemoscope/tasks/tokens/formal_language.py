"""The base class of formal languages: a sequence of random length, and one answer at its end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.tasks.bit_task import check_range
from mnemoscope.tasks.task import Batch
from mnemoscope.tasks.tokens.task import TokenTask


@dataclass(frozen=True)
class FormalLanguage(TokenTask):
    """Base class of tasks with one answer, at the last of a random number of steps.

    A length counts the answer too, as in the reference: it is uniform from `shortest` to `longest` in training, and
    from `test_shortest` to `test_longest` in tests. Grazzi et al. 2025; Beck et al. 2024; code:
    automl/unlocking_state_tracking, where all sequences are padded to 256 steps. Here they are padded to `longest`,
    which changes no answer.
    """

    shortest: int = 3
    longest: int = 40
    test_shortest: int = 40
    test_longest: int = 256

    span_label: ClassVar[str] = "length"
    least_length: ClassVar[int] = 3

    def __post_init__(self) -> None:
        check_range("length", self.shortest, self.longest, lowest=self.least_length)
        check_range("length of a test", self.test_shortest, self.test_longest, lowest=self.least_length)

    @property
    def longest_span(self) -> int:
        return self.longest

    def at(self, length: int, /) -> FormalLanguage:
        return replace(self, shortest=length, longest=length, test_shortest=length, test_longest=length)

    def held_out(self) -> Any:
        return replace(self, shortest=self.test_shortest, longest=self.test_longest)

    def lengths(self) -> Sequence[int]:
        """Return the lengths of training, which are equally probable."""
        return range(self.shortest, self.longest + 1)

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        known = torch.tensor(self.lengths())
        lengths = known[torch.randint(len(known), (batch,), generator=generator)]
        inputs, answers, due = self.draw(lengths, generator)
        sequence = torch.arange(batch)
        targets = torch.zeros_like(inputs)
        targets[due, sequence] = answers
        mask = torch.zeros(inputs.shape, dtype=torch.bool)
        mask[due, sequence] = True
        return Batch(inputs, targets, mask)

    @abstractmethod
    def draw(
        self, lengths: Int[Tensor, " batch"], generator: torch.Generator
    ) -> tuple[Int[Tensor, "time batch"], Int[Tensor, " batch"], Int[Tensor, " batch"]]:
        """Return padded inputs of these lengths, the answer of each, and the step at which it is due."""
