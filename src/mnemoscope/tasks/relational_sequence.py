"""Relational tasks as sequence tasks: each problem is a sequence of one step that shows all its objects."""

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
class RelationalSequence(Task):
    """A relational task with the interface of `Task`, for the training loop, evaluations and studies.

    The split "test" uses what is held out of training, such as unseen shapes. The split "validation" uses new problems
    with what is trained on.

    >>> from mnemoscope.tasks.relational import RMTS
    >>> batch = RelationalSequence(RMTS()).batch(5, seed=0, number=0)
    >>> batch.inputs.objects.shape, batch.targets.shape
    (torch.Size([5, 6]), torch.Size([1, 5]))
    """

    relational: RelationalTask

    baseline_label: ClassVar[str] = "by guessing"

    @property
    def input_size(self) -> int:
        """Number of pixel values of an image."""
        return self.relational.channels * self.relational.height * self.relational.width

    @property
    def output_size(self) -> int:
        """Number of answers, one of which is right."""
        return self.relational.choices

    def batch(self, size: int, seed: int, number: int, split: Split = "train") -> Batch:
        scenes = self.relational.batch(size, seed, number, split)
        return Batch(scenes, scenes.labels[None], torch.ones(1, size, dtype=torch.bool))

    def scores(self, outputs: Float[Tensor, "1 batch choices"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of problems with the right answer."""
        return {"accuracy": (outputs.argmax(-1) == batch.targets).float().mean().item()}

    def baseline(self) -> float:
        """Return `log(choices)`, the loss of guessing: all answers are equally frequent."""
        return log(self.relational.choices)

    def chance(self) -> float:
        return 1 / self.relational.choices
