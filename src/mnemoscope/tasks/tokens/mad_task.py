"""The base class of the MAD tasks: a fixed number of training sequences, and a macro-averaged accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.tasks.splits import Split, check_batch_request, generator_seed
from mnemoscope.tasks.task import Batch
from mnemoscope.tasks.tokens.fixed_length import FixedLengthTask


@dataclass(frozen=True)
class MadTask(FixedLengthTask):
    """Base class of the tasks of mechanistic architecture design. Poli et al. 2024; code: athms/mad-lab.

    Training has `examples` different sequences, drawn once for each seed and shown in a new order in every epoch; with
    0 every batch is new. Tests are always new.
    """

    examples: int = 12_800

    def __post_init__(self) -> None:
        check_whole(0, examples=self.examples)

    def batch(self, size: int, seed: int, number: int, split: Split = "train") -> Batch:
        if split != "train" or not self.examples:
            return super().batch(size, seed, number, split)
        check_batch_request(size, number, split)
        if size > self.examples:
            raise ValueError(
                f"A batch of {size} needs as many examples, but there are {self.examples}: choose a smaller batch, "
                f"or examples = 0, with which every batch is new."
            )
        epoch, place = divmod(number, self.examples // size)
        order = torch.randperm(
            self.examples, generator=torch.Generator().manual_seed(generator_seed(seed, epoch, "train"))
        )
        chosen = order[place * size : (place + 1) * size]
        return Batch(*(part[:, chosen] for part in _examples(self, seed)))

    def scores(self, outputs: Float[Tensor, "time batch tokens"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, of all counted steps, and `macro accuracy`, the mean over tokens, which MAD reports.

        A token that was answered, but never due, has the accuracy 0 in that mean, and others that were not due do not
        count. MAD takes the mean over the tokens of all test sequences, while `evaluate` averages those of its batches.
        """
        due, given = batch.targets[batch.mask], outputs.argmax(-1)[batch.mask]
        number = due.bincount(minlength=self.output_size)
        right = due[due == given].bincount(minlength=self.output_size)
        known = (number + given.bincount(minlength=self.output_size)) > 0
        macro = (right / number.clamp(min=1))[known].double().mean().item()
        return {**super().scores(outputs, batch), "macro accuracy": macro}


@lru_cache(maxsize=2)
def _examples(task: Any, seed: int) -> Batch:
    """Return the training sequences of a seed."""
    return task.sample(task.examples, torch.Generator().manual_seed(generator_seed(seed, 0, "train")))
