"""How one trained network does on several tasks, such as sequences of several lengths."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from mnemoscope.cells import Model
from mnemoscope.tasks import Split, Task
from mnemoscope.training.evaluation import evaluate

Name = TypeVar("Name", bound=Hashable)


def evaluate_each(
    model: Model,
    tasks: Mapping[Name, Task],
    *,
    sequences: int = 100,
    batches: int = 1,
    seed: int = 0,
    split: Split = "validation",
    piece: int | None = 500,
) -> dict[Name, dict[str, float]]:
    """Loss and scores of one model on each of several tasks, without further training.

    Args:
        model: with the inputs and outputs of all of them.
        tasks: by any name, such as their length.
        sequences: in a batch.
        batches: of each task, from number 0 on.
        seed: of the batches.
        split: of the batches. Training on an endless task evaluates on "test", so that "validation" is new to it.
        piece: steps that are gone through at once; None: whole sequences. Relational problems have one step.

    >>> from mnemoscope.cells import GRU
    >>> from mnemoscope.tasks import Copy
    >>> tasks = {delay: Copy(delay) for delay in (5, 50)}
    >>> scores = evaluate_each(Model(GRU(10, 8), output_size=9), tasks, sequences=4)
    >>> [(delay, sorted(each)) for delay, each in scores.items()]
    [(5, ['accuracy', 'loss']), (50, ['accuracy', 'loss'])]

    """
    device = next(model.parameters()).device
    for name, task in tasks.items():
        whole = task.batches(sequences, split)
        if batches < 1 or (whole is not None and batches > whole):
            most = "" if whole is None else f" and at most {whole}, which is all of the {split} split"
            raise ValueError(f"batches must be at least 1{most}, but is {batches} for the task {name!r}.")
    return {
        name: evaluate(
            model, task, (task.batch(sequences, seed, each, split).to(device) for each in range(batches)), piece=piece
        )
        for name, task in tasks.items()
    }
