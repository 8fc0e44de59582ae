"""The adding problem: the sum of the two marked numbers of a long sequence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.tasks.task import Batch, GeneratedTask


@dataclass(frozen=True)
class Adding(GeneratedTask):
    """Numbers ~ U[0, 1], and a channel that marks one number in each half; the target is their sum at the last step.

    Hochreiter & Schmidhuber 1997, in the form of Arjovsky et al. 2016, section 5.2. If the length is odd, the second
    half is the longer one.

    >>> task = Adding(length=50)
    >>> batch = task.batch(4, seed=0, number=0)
    >>> print(batch.inputs.shape, batch.inputs[..., 1].sum(0).tolist())
    torch.Size([50, 4, 2]) [2.0, 2.0, 2.0, 2.0]
    """

    length: int = 200

    span_label: ClassVar[str] = "length"
    tolerance: ClassVar[float] = 0.04
    """Largest error of a sum that counts as right: the criterion of Hochreiter & Schmidhuber 1997."""

    def __post_init__(self) -> None:
        if self.length < 2:
            raise ValueError(f"Two numbers need a sequence of at least 2 steps, but length is {self.length}.")

    @property
    def longest_span(self) -> int:
        return self.length

    def at(self, length: int, /) -> Adding:
        return replace(self, length=length)

    @property
    def input_size(self) -> int:
        return 2

    @property
    def output_size(self) -> int:
        return 1

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        half = self.length // 2
        values = torch.rand((self.length, batch), generator=generator, dtype=torch.float32)
        first = torch.randint(0, half, (1, batch), generator=generator)
        second = torch.randint(half, self.length, (1, batch), generator=generator)
        markers = torch.zeros_like(values).scatter_(0, first, 1.0).scatter_(0, second, 1.0)
        targets = torch.zeros(self.length, batch, 1)
        targets[-1, :, 0] = (values * markers).sum(0)
        mask = torch.zeros(self.length, batch, dtype=torch.bool)
        mask[-1] = True
        return Batch(torch.stack([values, markers], -1), targets, mask)

    def scores(self, outputs: Float[Tensor, "time batch 1"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of sums whose error is below 0.04."""
        error = (outputs[-1] - batch.targets[-1]).abs()
        return {"accuracy": (error < self.tolerance).float().mean().item()}

    def baseline(self) -> float:
        """Return `1/6 - p/12` with p = 1 / ceil(length / 2), the probability that the last number is a marked one.

        If it is not, both marked numbers are unseen; the best guess of their sum is 1, with squared error
        2 Var U[0, 1] = 1/6. If it is, only the first one is unseen; the best guess is 1/2 plus the number seen, with
        squared error 1/12.
        """
        p = 1 / (self.length - self.length // 2)
        return 1 / 6 - p / 12
