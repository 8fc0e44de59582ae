"""The folder of a run: `runs/<name>/<hash>/`, plain text and safetensors, never pickle."""

from __future__ import annotations

import json
import os
import platform
import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import numpy as np
import torch

from mnemoscope import registry
from mnemoscope.base.files import DEBRIS, claimed, write_atomically
from mnemoscope.base.version import __version__
from mnemoscope.cells import Model
from mnemoscope.config.run_config import Log, RunConfig
from mnemoscope.store import newer_version_note
from mnemoscope.tasks import Task
from mnemoscope.training.build import build_model, build_task
from mnemoscope.training.files import read_json, read_tensors, write_json, write_tensors
from mnemoscope.training.result import TrainResult

Status = Literal["new", "unfinished", "finished"]


@dataclass(frozen=True)
class RunFolder:
    """One run on disk.

    - `config.toml`: what was asked for;
    - `env.json`: with which versions, on which machine;
    - `metrics.jsonl`: a line per evaluation, without times, so that equal runs have equal bytes;
    - `checkpoint.safetensors`: weights, optimiser, counters and carried state, from which an unfinished run goes on;
    - `model.safetensors`, `result.json`: the network and how it went, once the run is finished;
    - `tensorboard/`, `wandb/`: the metrics in other forms, if these were asked for.
    """

    path: Path

    @property
    def status(self) -> Status:
        """Whether there is no run here yet, one to go on with, or a finished one."""
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"{self.path} is a file; the folder of a run was expected.")
        content = sorted(each.name for each in self.path.glob("*") if not each.name.startswith(DEBRIS))
        if not content:
            return "new"
        if "config.toml" not in content:
            raise FileExistsError(
                f"{self.path} is not the folder of a run: it holds {', '.join(content[:3])}, but no config.toml. "
                f"Choose another folder."
            )
        return "finished" if {"result.json", "model.safetensors"} <= {*content} else "unfinished"

    def claimed(self) -> AbstractContextManager[None]:
        """Keep other processes from training here for as long as the context lasts."""
        return claimed(self.path, "training")

    def decide(self, config: RunConfig, *, resume: bool, overwrite: bool) -> Literal["start", "go on", "done"]:
        """What there is to do here for someone who wants this run; raises if the folder is not theirs to touch."""
        if resume and overwrite:
            raise ValueError("resume=True goes on with a run and overwrite=True starts it again; choose one of them.")
        status = self.status
        if overwrite or status == "new":
            return "start"
        if self.read_config().hash != config.hash:
            raise ValueError(
                f"{self.path} holds a run with other settings than its name says: its config.toml was edited. "
                f"Restore it, or start again with overwrite=True."
            )
        if status == "finished":
            return "done"
        if not resume:
            raise FileExistsError(
                f"There is an unfinished run in {self.path}. Go on with it by resume=True (`--resume`), "
                f"or start again by overwrite=True (`--overwrite`)."
            )
        known = self.read_environment() if (self.path / "env.json").exists() else {}
        if newer := newer_version_note(str(known.get("mnemoscope", ""))):
            raise ValueError(f"The unfinished run in {self.path} was {newer}: go on with it by that version.")
        return "go on"

    def read_environment(self) -> dict[str, Any]:
        """Versions and machine with which the run was begun."""
        return read_json(self.path / "env.json")

    def begin(self, config: RunConfig, processes: int = 1) -> None:
        """Start from nothing: remove what an earlier run left, write the configuration and the environment."""
        for name in ("result.json", "model.safetensors", "checkpoint.safetensors", "metrics.jsonl", "env.json"):
            (self.path / name).unlink(missing_ok=True)
        for name in get_args(Log):
            shutil.rmtree(self.path / name, ignore_errors=True)
        write_atomically(self.path / "config.toml", config.to_toml().encode())
        write_json(self.path / "env.json", environment() | ({"processes": processes} if processes > 1 else {}))

    def copy_finished(self, to: RunFolder, config: RunConfig) -> None:
        """Put this finished run, with its versions and machine, into another folder, as the run of `config`."""
        self._check_finished()
        with to.claimed():
            write_atomically(to.path / "config.toml", config.to_toml().encode())
            for name in ("env.json", "metrics.jsonl", "model.safetensors", "result.json"):  # the last makes it finished
                write_atomically(to.path / name, (self.path / name).read_bytes())

    def remove_debris(self) -> None:
        """Remove what crashes in the middle of writing have left."""
        for each in self.path.glob(f"{DEBRIS}*"):
            each.unlink()

    def read_config(self) -> RunConfig:
        """What was asked for."""
        if not self.path.is_dir():
            raise FileNotFoundError(f"There is no folder {self.path}.")
        if self.status == "new":
            raise FileNotFoundError(f"{self.path} is empty; the folder of a run was expected.")
        return RunConfig.from_toml(self.path / "config.toml")

    def read_result(self) -> TrainResult:
        """How the run went."""
        self._check_finished()
        return TrainResult.from_json(read_json(self.path / "result.json"), self.path)

    def read_metrics(self) -> list[dict[str, Any]]:
        """The evaluations so far, in order."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        try:
            return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} does not hold a JSON object in every line: {error}. Was it cut short?") from error

    def open_metrics(self, size: int) -> BinaryIO:
        """metrics.jsonl for appending, after what was written past its first `size` bytes has been taken back."""
        path = self.path / "metrics.jsonl"
        path.touch()
        if path.stat().st_size < size:
            raise ValueError(
                f"{path} has {path.stat().st_size} bytes, but {size} when the checkpoint was made: it was cut short "
                f"since. Start the run again with overwrite=True."
            )
        os.truncate(path, size)
        return path.open("ab")

    def load_model(self) -> tuple[Model, Task, RunConfig]:
        """The trained network, on the CPU, in evaluation mode."""
        config = self.read_config()
        self._check_finished()
        task = build_task(config)
        model = build_model(config, task)
        path = self.path / "model.safetensors"
        weights, written = read_tensors(path)
        if written.get("config", config.hash) != config.hash:
            raise ValueError(
                f"{self.path} holds a network trained with other settings than its config.toml, which was edited."
            )
        load_weights(model, weights, path)
        return model.eval(), task, config

    def save_model(self, model: Model, config: RunConfig) -> None:
        """Write model.safetensors."""
        write_tensors(self.path / "model.safetensors", model.state_dict(), {"config": config.hash})

    def save_result(self, result: TrainResult) -> None:
        """Write result.json, which makes the run a finished one."""
        write_json(self.path / "result.json", result.as_json())

    def _check_finished(self) -> None:
        self.read_config()
        if self.status != "finished":
            raise FileNotFoundError(
                f"The run in {self.path} is not finished: it has no result yet. "
                f"Go on with train(config, resume=True), or `mnemoscope train {self.path}/config.toml --resume`."
            )


def load_model(folder: str | Path) -> tuple[Model, Task, RunConfig]:
    """The trained network of a run folder, on the CPU, with its task and its configuration.

    >>> load_model("runs/nowhere")
    Traceback (most recent call last):
    FileNotFoundError: There is no folder runs/nowhere.
    """
    return RunFolder(Path(folder)).load_model()


def load_weights(model: Model, weights: dict[str, torch.Tensor], path: Path) -> None:
    """Put `weights`, read from `path`, into the model, which must have the same names and shapes."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"The weights in {path} do not fit the network that config.toml describes: {error}") from error


def environment() -> dict[str, Any]:
    """Versions and machine, for env.json."""
    return {
        "mnemoscope": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cpu_count": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        **({"plugins": plugins} if (plugins := registry.loaded_plugins()) else {}),
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")  # platform.processor() says little on Linux
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
