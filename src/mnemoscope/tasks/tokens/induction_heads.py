"""Induction heads: a special token twice, and at its second appearance the token that followed the first."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch

from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.task import Batch
from mnemoscope.tasks.tokens.fixed_length import FixedLengthTask


@dataclass(frozen=True)
class InductionHeads(FixedLengthTask):
    """Random tokens, a trigger among them and another at the end; there the token after the first trigger is due.

    The trigger is the last token of the vocabulary, and all others are random. The place of the first trigger is
    uniform, from step 0 to `length` - 4. Gu & Dao 2024, section 4.1.2: trained with 256 steps and a vocabulary of 16,
    tested with 2^6 to 2^20. Its generator is not published; this is the one of HazyResearch/safari (Fu et al. 2023)
    with a single trigger, without its second special token, which never occurs. Only the last step counts.

    >>> print(InductionHeads(length=12, vocabulary=8).example(seed=1))
    input   2 4 2 2 3 3 > 5 0 0 0 >
    target  · · · · · · · · · · · 5
    """

    length: int = 256
    vocabulary: int = 16

    def __post_init__(self) -> None:
        check_whole(4, length=self.length)
        check_whole(3, vocabulary=self.vocabulary)

    def label(self, token: int, /) -> str:
        return ">" if token == self.vocabulary - 1 else str(token)

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        trigger, sequence = self.vocabulary - 1, torch.arange(batch)
        inputs = torch.randint(trigger, (self.length, batch), generator=generator)
        place = torch.randint(self.length - 3, (batch,), generator=generator)
        inputs[place, sequence], inputs[-1] = trigger, trigger
        targets = torch.zeros_like(inputs)
        targets[-1] = inputs[place + 1, sequence]
        mask = torch.zeros(inputs.shape, dtype=torch.bool)
        mask[-1] = True
        return Batch(inputs, targets, mask)

    def baseline(self) -> float:
        """Return the logarithm of the number of tokens other than the trigger, which are uniform."""
        return log(self.vocabulary - 1)

    def chance(self) -> float:
        return 1 / (self.vocabulary - 1)
