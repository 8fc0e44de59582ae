"""Training callbacks: objects or plain functions that `train` calls while a run proceeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemoscope.cells import Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.training.result import TrainResult


@dataclass(frozen=True)
class StartInfo:
    """State of a run before its first step, for `Callback.on_start`."""

    config: RunConfig
    folder: Path
    """Folder of the run."""
    lines: list[dict[str, Any]]
    """Lines of metrics.jsonl: of a resumed run, the evaluations before its checkpoint."""
    baseline: float
    """Loss of the best memoryless predictor."""


@dataclass(frozen=True)
class StepInfo:
    """State of a run after an optimiser step, for `Callback.on_step` and plain functions."""

    step: int
    """Optimiser steps done."""
    loss: float
    """Training loss before the step."""
    evaluation: dict[str, Any] | None
    """Line written to metrics.jsonl if the model was evaluated after this step, otherwise None."""
    model: Model


class Callback:
    """Base class of training callbacks. A subclass overrides the events it needs."""

    def on_start(self, info: StartInfo) -> None:
        """Run before the first step, or before the first step after a checkpoint."""

    def on_step(self, info: StepInfo) -> None:
        """Run after every optimiser step."""

    def on_end(self, result: TrainResult) -> None:
        """Run after the last step, unless the run was interrupted."""

    def close(self) -> None:
        """Release resources. Always called last, even after an error."""


class CallbackList(Callback):
    """Several callbacks, each a `Callback` or a plain function that is called with a `StepInfo` after every step.

    `resources` closes them when training ends.
    """

    def __init__(self, callbacks: Sequence[Callback | Callable[[StepInfo], None]], resources: ExitStack) -> None:
        self._callbacks = [item if isinstance(item, Callback) else _FunctionCallback(item) for item in callbacks]
        self._resources = resources

    def on_start(self, info: StartInfo) -> None:
        for callback in self._callbacks:
            self._resources.callback(callback.close)
            callback.on_start(info)

    def on_step(self, info: StepInfo) -> None:
        for callback in self._callbacks:
            callback.on_step(info)

    def on_end(self, result: TrainResult) -> None:
        for callback in self._callbacks:
            callback.on_end(result)


class _FunctionCallback(Callback):
    def __init__(self, function: Callable[[StepInfo], None]) -> None:
        self._function = function

    def on_step(self, info: StepInfo) -> None:
        self._function(info)
