"""How good a model is on batches of a task."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import torch

from mnemoscope.cells import Model
from mnemoscope.tasks import Batch, Task


@torch.no_grad()
def evaluate(
    model: Model,
    task: Task,
    batches: Iterable[Batch],
    continues: Iterable[bool] = repeat(False),
    piece: int | None = None,
) -> dict[str, float]:
    """Mean loss and scores of a model over batches of a task, in evaluation mode.

    The state is carried into a batch where `continues` says so (see `Task.continues`). Batches count by their size.
    Long sequences may be gone through in pieces of `piece` steps, which keeps what is stored of the states short.
    """
    training = model.training
    model.eval()
    rows, weights, state = [], [], None
    for batch, carry in zip(batches, continues, strict=False):
        state, parts = state if carry else None, []
        for window in batch.windows(piece):
            outputs, state = model(window.inputs, state)
            parts.append(outputs)
        outputs = torch.cat(parts)
        rows.append({"loss": task.loss(outputs, batch).item(), **task.scores(outputs, batch)})
        weights.append(int(batch.mask.sum().clamp(min=1)))
    model.train(training)
    shares = [weight / weights[0] for weight in weights]  # equal batches: the plain mean, to the last digit
    return {name: sum(s * row[name] for s, row in zip(shares, rows, strict=True)) / sum(shares) for name in rows[0]}
