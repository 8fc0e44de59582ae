"""Relational tasks in the form of tasks: each problem is a sequence of one step, at which all its objects are seen."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.tasks.relational.task import RelationalTask
from mnemoscope.tasks.task import Batch, Split, Task


@dataclass(frozen=True)
class Problems(Task):
    """A relational task as what the training loop, evaluations and studies know: `of` draws the problems.

    The split "test" holds what is kept from training, such as unseen shapes; "validation" holds further problems of
    what is trained with.

    >>> from mnemoscope.tasks.relational import RMTS
    >>> batch = Problems(RMTS()).batch(5, seed=0, number=0)
    >>> batch.inputs.objects.shape, batch.targets.shape
    (torch.Size([5, 6]), torch.Size([1, 5]))
    """

    of: RelationalTask

    baseline_is: ClassVar[str] = "by guessing"

    @property
    def input_size(self) -> int:
        """Numbers of an image."""
        return self.of.channels * self.of.height * self.of.width

    @property
    def output_size(self) -> int:
        """Answers among which one is right."""
        return self.of.choices

    def batch(self, size: int, seed: int, number: int, split: Split = "train") -> Batch:
        scenes = self.of.batch(size, seed, number, split)
        return Batch(scenes, scenes.labels[None], torch.ones(1, size, dtype=torch.bool))

    def scores(self, outputs: Float[Tensor, "1 batch choices"], batch: Batch) -> dict[str, float]:
        """`accuracy`: how many problems are answered right."""
        return {"accuracy": (outputs.argmax(-1) == batch.targets).float().mean().item()}

    def baseline(self) -> float:
        """`log(choices)`: who guesses, as every answer is right as often as any other."""
        return log(self.of.choices)
