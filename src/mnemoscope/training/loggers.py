"""Callbacks that log the lines of metrics.jsonl to TensorBoard or Weights & Biases, in the folder of the run.

A resumed run writes its log anew from metrics.jsonl, which then ends at the checkpoint. So no point is logged twice and
none is missing, even if logging was requested only on resume.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from mnemoscope.base.lazy_imports import import_extra
from mnemoscope.training.callbacks import Callback, StartInfo, StepInfo
from mnemoscope.training.result import TrainResult


def build_loggers(names: Sequence[str]) -> list[Callback]:
    """Return the loggers of these names, or raise with the command that installs a missing package."""
    return [_LOGGERS[name]() for name in names]


class MetricsLogger(Callback, ABC):
    """Base class of loggers: every evaluation is written under the names of metrics.jsonl."""

    def on_start(self, info: StartInfo) -> None:
        self.open(info)
        for line in info.lines:
            self.write(line)

    def on_step(self, info: StepInfo) -> None:
        if info.evaluation is not None:
            self.write(info.evaluation)

    @abstractmethod
    def open(self, info: StartInfo) -> None:
        """Start a new log and remove the one of an earlier start."""

    @abstractmethod
    def write(self, line: dict[str, Any]) -> None:
        """Add a line of metrics.jsonl."""


class TensorBoardLogger(MetricsLogger):
    """Event file in the folder `tensorboard` of the run; `tensorboard --logdir runs` shows all runs."""

    def __init__(self) -> None:
        import_extra("tensorboard", "tensorboard", "The log tensorboard needs")
        self._writer: Any = None

    def open(self, info: StartInfo) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = info.folder / "tensorboard"
        shutil.rmtree(folder, ignore_errors=True)
        self._writer = SummaryWriter(str(folder))
        settings = "\n".join(f"    {line}" for line in info.config.to_toml().splitlines())  # a Markdown code block
        self._writer.add_text("config", settings)
        self._writer.add_text("baseline", str(info.baseline))

    def write(self, line: dict[str, Any]) -> None:
        for name, value in _values(line).items():
            self._writer.add_scalar(name, value, line["step"])
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiasesLogger(MetricsLogger):
    """Run of wandb in the folder `wandb` of the run.

    It is offline, for `wandb sync` to upload, unless the environment variable WANDB_MODE sets another mode.
    """

    def __init__(self) -> None:
        self._wandb = import_extra("wandb", "wandb", "The log wandb needs")
        self._run: Any = None
        self._finished = False

    def open(self, info: StartInfo) -> None:
        config, mode = info.config, os.environ.get("WANDB_MODE", "offline")
        if mode == "offline":
            shutil.rmtree(info.folder / "wandb", ignore_errors=True)
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", "mnemoscope"),
            name=config.name,
            id=f"{config.name}-{config.hash}",
            dir=str(info.folder),
            mode=mode,
            config={**asdict(config), "baseline": info.baseline},
            reinit="create_new",  # the caller may have another wandb run open
            # online, wandb keeps the points that it already has; they equal those that are written again
            resume="allow" if mode == "online" else None,
            settings=self._wandb.Settings(console="off", silent=True, x_disable_stats=True),
        )

    def write(self, line: dict[str, Any]) -> None:
        self._run.log(_values(line), step=line["step"])

    def on_end(self, result: TrainResult) -> None:
        self._run.summary.update(
            {"result": {"loss": result.loss, **result.scores, "stopped": result.stopped, "seconds": result.seconds}}
        )
        self._finished = True

    def close(self) -> None:
        if self._run is not None:
            self._run.finish(exit_code=0 if self._finished else 1)


_LOGGERS: dict[str, Callable[[], Callback]] = {"tensorboard": TensorBoardLogger, "wandb": WeightsAndBiasesLogger}


def _values(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name != "step" and value is not None}
