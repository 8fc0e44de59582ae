"""The accuracy of a model on each sequence of a batch, for intervals over sequences."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.cells import Model
from mnemoscope.lenses.bootstrap import ratio_interval, widen_certain
from mnemoscope.tasks import Batch, Task

MOST_OUTPUTS = 2**25
"""Outputs, as numbers, that are kept at once: a vocabulary of thousands of tokens has many at each step."""


class Accuracy(NamedTuple):
    """A share of right answers, and its 95% confidence interval over sequences; NaN edges for a single sequence."""

    mean: float
    low: float
    high: float


class SequenceScores(NamedTuple):
    """The accuracy of each sequence, and how many answers it has."""

    accuracy: Float[Tensor, " sequences"]
    """Share of right answers, as the task scores them; NaN for a sequence without any."""
    answers: Int[Tensor, " sequences"]
    """Number of steps at which memory is tested."""

    def overall(self) -> Accuracy:
        """Return the accuracy over all answers, with its interval over sequences.

        >>> SequenceScores(torch.tensor([1.0, 0.0]), torch.tensor([3, 1])).overall().mean
        0.75
        """
        known = self.answers > 0
        weights = self.answers[known].double()
        parts = self.accuracy[known].double() * weights
        mean = parts.sum() / weights.sum()
        interval = widen_certain(ratio_interval(parts[:, None], weights[:, None]), mean[None], len(weights))
        return Accuracy(float(mean), *(float(edge) for edge in interval))


def score_sequences(
    task: Task, outputs: Float[Tensor, "time batch output"], batch: Batch
) -> Float[Tensor, " sequences"]:
    """Return the accuracy of each sequence from the outputs at all steps."""
    scores = [task.scores(outputs[:, [i]], batch.part(slice(i, i + 1)))["accuracy"] for i in range(batch.mask.shape[1])]
    return torch.tensor(scores, dtype=torch.float64)


@torch.no_grad()
def evaluate_sequences(model: Model, task: Task, batch: Batch) -> SequenceScores:
    """Run a model over a batch in evaluation mode, and score each sequence.

    >>> from mnemoscope.cells import GRU
    >>> from mnemoscope.tasks import Copy
    >>> task = Copy(delay=3, symbols=2)
    >>> scores = evaluate_sequences(Model(GRU(10, 8), output_size=9), task, task.batch(4, seed=0, number=0))
    >>> scores.answers.tolist()
    [2, 2, 2, 2]
    """
    training = model.training
    network = model.time_first().eval()
    sequences = batch.mask.shape[1]
    together = max(1, MOST_OUTPUTS // (len(batch.mask) * task.output_size))
    parts = [batch.part(slice(start, start + together)) for start in range(0, sequences, together)]
    accuracy = torch.cat([score_sequences(task, network(part.inputs)[0], part) for part in parts])
    model.train(training)
    return SequenceScores(accuracy, torch.cat([task.recalled(part).sum(0) for part in parts]))
