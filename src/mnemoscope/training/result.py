"""The result of a training run, and the error of a run whose loss or gradient is no longer finite."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

from mnemoscope.base.schema import checked

StopReason = Literal["steps", "target", "patience"]


@dataclass(frozen=True)
class TrainResult:
    """Result of a finished run. The folder holds the network: `model, task, config = load_model(result.folder)`."""

    folder: Path
    steps: int
    """Optimiser steps done."""
    stopped: StopReason
    """Why the run ended: all steps done, target reached, or patience exhausted."""
    loss: float
    """Evaluation loss after the last step. For a task with a data set: loss on the whole test split, with the weights
    that did best in validation."""
    scores: dict[str, float]
    """Scores of the task, measured with `loss`."""
    baseline: float
    """Loss of the best memoryless predictor."""
    seconds: float
    """Time spent, without interruptions."""
    cached: bool = False
    """Whether the run had finished before, so that this result was read from its folder."""

    def as_json(self) -> dict[str, Any]:
        """Return the content of result.json."""
        content = asdict(self)
        del content["folder"], content["cached"]
        return content

    @classmethod
    def from_json(cls, content: dict[str, Any], folder: Path, cached: bool = True) -> TrainResult:
        """Return the result from the content of result.json in `folder`."""
        expected = get_type_hints(cls)
        del expected["folder"], expected["cached"]
        if content.keys() != expected.keys() or not _fits(content, expected):
            found = ", ".join(f"{name} = {value!r}" for name, value in content.items()) or "nothing"
            raise ValueError(
                f"{folder}/result.json should hold {', '.join(sorted(expected))}, but holds {found}. It was edited, or "
                f"written by another version of mnemoscope; start the run again with overwrite=True."
            )
        return cls(folder=folder, cached=cached, **content)


def _fits(content: dict[str, Any], expected: dict[str, Any]) -> bool:
    try:
        for name, hint in expected.items():
            checked(content[name], hint, name)
    except ValueError:
        return False
    return True


class NonFiniteLoss(RuntimeError):  # noqa: N818 (like StopIteration, it names an event)
    """The loss or its gradient became infinite or NaN."""


def non_finite_loss(reason: str, steps: int, checkpoint: Path) -> NonFiniteLoss:
    """Return the error for a run that diverged after so many optimiser steps, with advice.

    `reason` states the value, without a full stop; `checkpoint` is the path of the last one, which need not exist.
    """
    kept = f"the last good checkpoint is {checkpoint}" if checkpoint.exists() else "no checkpoint had been made yet"
    return NonFiniteLoss(
        f"{reason} after {steps} optimiser steps; {kept}. Resuming would meet it again: lower learning_rate, set or "
        f"lower clip, let single batches be left out (leave_out), or change the initial weights."
    )
