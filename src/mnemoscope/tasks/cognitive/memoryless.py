"""The loss of the best memoryless predictor, computed from trials that are all equally likely."""

from __future__ import annotations

from mnemoscope.tasks.task import Batch


def memoryless_loss(batch: Batch) -> float:
    """Return the mean squared error of the best guess from the current input and the time.

    The trials of the batch must be all that can occur, without noise and with equal chances. At each step, those with
    the same input look the same, and the best guess is the mean of their targets.
    """
    total = 0.0
    for inputs, targets, counted in zip(*batch, strict=True):
        if not counted.any():
            continue
        group = inputs[counted].unique(dim=0, return_inverse=True)[1]
        due = targets[counted].double()
        sums = due.new_zeros(int(group.max()) + 1, due.shape[1]).index_add_(0, group, due)
        total += (due - (sums / group.bincount().unsqueeze(1))[group]).square().mean(1).sum().item()
    return total / int(batch.mask.sum())
