"""Who follows a training: a function that is called after every step, or what is told of its begin and end too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemoscope.cells import Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.training.result import TrainResult


@dataclass(frozen=True)
class StepInfo:
    """What a callback is told after every optimiser step."""

    step: int
    """Optimiser steps done."""
    loss: float
    """Training loss before the step."""
    evaluation: dict[str, Any] | None
    """The line that was written to metrics.jsonl, if this step was evaluated."""
    model: Model


@dataclass(frozen=True)
class Begun:
    """What a `Follower` is told before the first step."""

    config: RunConfig
    folder: Path
    """Of the run."""
    lines: list[dict[str, Any]]
    """What metrics.jsonl holds: the evaluations before the checkpoint from which the run goes on, if it does."""
    baseline: float
    """Loss of the best memoryless predictor."""


class Follower:
    """A callback that is also told when a training begins and ends. A new one defines what it wants to hear."""

    def begin(self, begun: Begun) -> None:
        """Before the first step, or the first one after a checkpoint."""

    def __call__(self, info: StepInfo) -> None:
        """After every step."""

    def finish(self, result: TrainResult) -> None:
        """After the last one, if the run was not interrupted."""

    def close(self) -> None:
        """At last, however it ended."""
