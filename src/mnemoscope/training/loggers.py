"""metrics.jsonl in the forms of TensorBoard and Weights & Biases, beside it in the folder of the run.

When a run goes on, what was logged of it is written again from metrics.jsonl, which then ends at the checkpoint: no
point is there twice, none is missing, also where logging was not asked for before.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from mnemoscope.training.callbacks import Begun, Follower, StepInfo
from mnemoscope.training.result import TrainResult


def logs(names: Sequence[str]) -> list[Follower]:
    """The logs that are asked for, or an error that says what to install."""
    return [_LOGS[name]() for name in names]


class _Log(Follower, ABC):
    """Each evaluation, by the names of metrics.jsonl."""

    def begin(self, begun: Begun) -> None:
        self.open(begun)
        for line in begun.lines:
            self.write(line)

    def __call__(self, info: StepInfo) -> None:
        if info.evaluation is not None:
            self.write(info.evaluation)

    @abstractmethod
    def open(self, begun: Begun) -> None:
        """Begin a new log in the place of one that is there."""

    @abstractmethod
    def write(self, line: dict[str, Any]) -> None:
        """Add a line of metrics.jsonl."""


class TensorBoard(_Log):
    """An event file in the folder `tensorboard` of the run: `tensorboard --logdir runs` shows all of them."""

    def __init__(self) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "The log tensorboard needs TensorBoard: pip install 'mnemoscope[tensorboard]'."
            ) from error
        self._new: Callable[[str], Any] = SummaryWriter
        self._writer: Any = None

    def open(self, begun: Begun) -> None:
        folder = begun.folder / "tensorboard"
        shutil.rmtree(folder, ignore_errors=True)
        self._writer = self._new(str(folder))
        settings = "\n".join(f"    {line}" for line in begun.config.to_toml().splitlines())  # Markdown's code
        self._writer.add_text("config", settings)
        self._writer.add_text("baseline", str(begun.baseline))

    def write(self, line: dict[str, Any]) -> None:
        for name, value in _values(line).items():
            self._writer.add_scalar(name, value, line["step"])
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases(_Log):
    """A run of wandb in the folder `wandb` of the run: offline, to be sent by `wandb sync`, unless WANDB_MODE says
    otherwise.
    """

    def __init__(self) -> None:
        try:
            import wandb  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ImportError("The log wandb needs Weights & Biases: pip install 'mnemoscope[wandb]'.") from error
        self._wandb: Any = wandb
        self._run: Any = None
        self._finished = False

    def open(self, begun: Begun) -> None:
        config, mode = begun.config, os.environ.get("WANDB_MODE", "offline")
        if mode == "offline":
            shutil.rmtree(begun.folder / "wandb", ignore_errors=True)
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", "mnemoscope"),
            name=config.name,
            id=f"{config.name}-{config.hash}",
            dir=str(begun.folder),
            mode=mode,
            config={**asdict(config), "baseline": begun.baseline},
            reinit="create_new",  # whoever calls may have a run of their own
            # online, points that are there already are left as they are, which is what they would become again
            resume="allow" if mode == "online" else None,
            settings=self._wandb.Settings(console="off", silent=True, x_disable_stats=True),
        )

    def write(self, line: dict[str, Any]) -> None:
        self._run.log(_values(line), step=line["step"])

    def finish(self, result: TrainResult) -> None:
        self._run.summary.update(
            {"result": {"loss": result.loss, **result.scores, "stopped": result.stopped, "seconds": result.seconds}}
        )
        self._finished = True

    def close(self) -> None:
        if self._run is not None:
            self._run.finish(exit_code=0 if self._finished else 1)


_LOGS: dict[str, Callable[[], Follower]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def _values(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name != "step" and value is not None}
