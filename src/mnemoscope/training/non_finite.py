"""The error of a run whose loss or gradient is no longer finite."""

from __future__ import annotations

from pathlib import Path


class NonFiniteLoss(RuntimeError):  # noqa: N818 (like StopIteration, it names an event)
    """The loss or its gradient became infinite or NaN."""


def non_finite_loss(reason: str, steps: int, checkpoint: Path) -> NonFiniteLoss:
    """Return the error for a run that diverged after so many steps, with advice.

    Args:
        reason: the sentence that states the value, without a full stop.
        steps: optimiser steps done.
        checkpoint: path of the last checkpoint, which need not exist.

    """
    kept = f"the last good checkpoint is {checkpoint}" if checkpoint.exists() else "no checkpoint had been made yet"
    return NonFiniteLoss(
        f"{reason} after {steps} optimiser steps; {kept}. Resuming would meet it again: lower learning_rate, set or "
        f"lower clip, let single batches be left out (leave_out), or change the initial weights."
    )
