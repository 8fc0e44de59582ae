"""The folder of one run, `runs/<name>/<hash>/`, written and resumed: plain text and safetensors, never pickle.

`store/run_table.py` reads the folders of all runs as one table, without torch.
"""

from __future__ import annotations

import os
import platform
import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from mnemoscope import registry
from mnemoscope.base.files import TEMPORARY_PREFIX, lock_folder, refuse_link, write_atomically, write_json
from mnemoscope.base.reading import open_regular, read_json
from mnemoscope.base.tensor_files import read_tensors, write_tensors
from mnemoscope.base.torch_state import present_threads
from mnemoscope.base.version import __version__
from mnemoscope.cells import Model
from mnemoscope.config.run_config import Log, RunConfig
from mnemoscope.store import newer_version_note
from mnemoscope.store.schemas import Environment
from mnemoscope.tasks import Task
from mnemoscope.training.build import build_model, build_task
from mnemoscope.training.metrics_file import read_metrics
from mnemoscope.training.result import TrainResult

FILES = ("result.json", "model.safetensors", "checkpoint.safetensors", "metrics.jsonl", "env.json")
"""Files of a run besides `config.toml`."""
Status = Literal["new", "unfinished", "finished"]


@dataclass(frozen=True)
class RunFolder:
    """One run on disk.

    - `config.toml`: the configuration;
    - `env.json`: versions and machine;
    - `metrics.jsonl`: a line per evaluation, without times, so that equal runs have equal bytes;
    - `checkpoint.safetensors`: weights, optimiser, counters and carried state, from which an unfinished run resumes;
    - `model.safetensors`, `result.json`: the network and its result, once the run is finished;
    - `tensorboard/`, `wandb/`: the metrics in other forms, if these were requested.
    """

    path: Path

    @property
    def status(self) -> Status:
        """Whether the folder holds no run yet, an unfinished one, or a finished one."""
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"{self.path} is a file; the folder of a run was expected.")
        content = sorted(file.name for file in self.path.glob("*") if not file.name.startswith(TEMPORARY_PREFIX))
        if not content:
            return "new"
        if "config.toml" not in content:
            raise FileExistsError(
                f"{self.path} is not the folder of a run: it holds {', '.join(content[:3])}, but no config.toml. "
                f"Choose another folder."
            )
        return "finished" if {"result.json", "model.safetensors"} <= {*content} else "unfinished"

    @property
    def checkpoint(self) -> Path:
        """Path of the checkpoint, which need not exist."""
        return self.path / "checkpoint.safetensors"

    @property
    def metrics(self) -> Path:
        """Path of metrics.jsonl, which need not exist."""
        return self.path / "metrics.jsonl"

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes from training in this folder while the context lasts."""
        return lock_folder(self.path, "training")

    def decide(self, config: RunConfig, *, resume: bool, overwrite: bool) -> Literal["start", "resume", "finished"]:
        """Return what to do for a run of `config`; raise if the folder holds something else."""
        if resume and overwrite:
            raise ValueError("resume=True continues a run and overwrite=True starts it again; choose one of them.")
        status = self.status
        if overwrite or status == "new":
            return "start"
        if self.read_config().hash != config.hash:
            raise ValueError(
                f"{self.path} holds a run with other settings than its name says: its config.toml was edited. "
                f"Restore it, or start again with overwrite=True."
            )
        if status == "finished":
            return "finished"
        if not resume:
            raise FileExistsError(
                f"There is an unfinished run in {self.path}. Continue it with resume=True, or start again "
                f"with overwrite=True."
            )
        for name in (*FILES, *get_args(Log)):
            refuse_link(self.path / name)
        environment = self.read_environment() if (self.path / "env.json").exists() else {}
        if newer := newer_version_note(environment.get("mnemoscope", "")):
            raise ValueError(f"The unfinished run in {self.path} was {newer}: continue it by that version.")
        return "resume"

    def read_environment(self) -> dict[str, Any]:
        """Return versions and machine at the start of the run."""
        return read_json(self.path / "env.json", Environment)

    def start(self, config: RunConfig, processes: int = 1) -> None:
        """Remove the files of an earlier run, and write the configuration and the environment."""
        for name in FILES:
            (self.path / name).unlink(missing_ok=True)
        for folder in (self.path / name for name in get_args(Log)):
            folder.unlink() if folder.is_symlink() else shutil.rmtree(folder, ignore_errors=True)
        write_atomically(self.path / "config.toml", config.to_toml().encode())
        write_json(self.path / "env.json", environment() | ({"processes": processes} if processes > 1 else {}))

    def copy_finished(self, to: RunFolder, config: RunConfig) -> None:
        """Copy this finished run, with its versions and machine, to another folder as the run of `config`."""
        self._check_finished()
        with to.lock():
            write_atomically(to.path / "config.toml", config.to_toml().encode())
            # result.json last: it marks the run as finished
            for name in ("env.json", "metrics.jsonl", "model.safetensors", "result.json"):
                with open_regular(self.path / name) as file:
                    write_atomically(to.path / name, file.read())

    def remove_temporary_files(self) -> None:
        """Remove incomplete files that a crash left behind."""
        for file in self.path.glob(f"{TEMPORARY_PREFIX}*"):
            file.unlink()

    def read_config(self) -> RunConfig:
        """Return the configuration of the run."""
        if not self.path.is_dir():
            raise FileNotFoundError(f"There is no folder {self.path}.")
        if self.status == "new":
            raise FileNotFoundError(f"{self.path} is empty; the folder of a run was expected.")
        try:
            return RunConfig.from_toml(self.path / "config.toml")
        except ValueError as error:
            if missing := self._missing_plugins():
                raise registry.MissingPluginError(str(error), missing) from error
            raise

    def _missing_plugins(self) -> list[str]:
        """Return the plugins of the run that are not imported."""
        try:
            used = self.read_environment().get("plugins", [])
        except (ValueError, OSError):
            return []  # the error about the configuration matters more
        return [name for name in used if name not in registry.loaded_plugins()]

    def read_result(self) -> TrainResult:
        """Return the result of the run."""
        self._check_finished()
        return TrainResult.from_json(read_json(self.path / "result.json"), self.path)

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the evaluations so far, in order."""
        return read_metrics(self.metrics)

    def load_model(self, *, training_device: bool = False) -> tuple[Model, Task, RunConfig]:
        """Return the trained network in evaluation mode, with its task and its configuration.

        It is on the CPU, or with `training_device` on the device of its training, if this machine has one.
        """
        config = self.read_config()
        self._check_finished()
        task = build_task(config)
        model = build_model(config, task)
        path = self.path / "model.safetensors"
        weights, header = read_tensors(path)
        if header.get("config", config.hash) != config.hash:
            raise ValueError(
                f"{self.path} holds a network trained with other settings than its config.toml, which was edited."
            )
        load_weights(model, weights, path)
        if training_device and config.device == "cuda" and torch.cuda.is_available():
            model = model.to(config.device)
        return model.eval(), task, config

    def save_model(self, model: Model, config: RunConfig) -> None:
        """Write model.safetensors."""
        write_tensors(self.path / "model.safetensors", model.state_dict(), {"config": config.hash})

    def save_result(self, result: TrainResult) -> None:
        """Write result.json, which marks the run as finished."""
        write_json(self.path / "result.json", result.as_json())

    def _check_finished(self) -> None:
        self.read_config()
        if self.status != "finished":
            if (self.path / "result.json").exists():
                raise FileNotFoundError(
                    f"The run in {self.path} has ended, but its model.safetensors is not there: copy it from where the "
                    f"run was trained."
                )
            raise FileNotFoundError(
                f"The run in {self.path} is not finished: it has no result yet. "
                f"Continue it with train(config, resume=True), or `mnemoscope train {self.path}/config.toml --resume`."
            )


def load_model(folder: str | Path, *, training_device: bool = False) -> tuple[Model, Task, RunConfig]:
    """Return the trained network of a run folder with its task and its configuration, as `RunFolder.load_model`.

    >>> load_model("runs/nowhere")
    Traceback (most recent call last):
    FileNotFoundError: There is no folder runs/nowhere.
    """
    return RunFolder(Path(folder)).load_model(training_device=training_device)


def load_weights(model: Model, weights: dict[str, torch.Tensor], path: Path) -> None:
    """Load `weights`, which were read from `path`, into the model; raise unless names, shapes and dtypes agree."""
    check_weights(model, weights, path)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"The weights in {path} do not fit the network that config.toml describes: {error}") from error


def check_weights(model: Model, weights: dict[str, torch.Tensor], path: Path) -> None:
    """Raise unless the weights, which were read from `path`, have the names, shapes and dtypes of the model's."""
    expected = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in model.state_dict().items()}
    found = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in weights.items()}
    wrong = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
    if wrong:
        here, there = (table.get(wrong[0], ("absent", "")) for table in (expected, found))
        raise ValueError(
            f"The weights in {path} do not fit the network that config.toml describes: {wrong[0]} is {there[0]} "
            f"{there[1]} in the file, but {here[0]} {here[1]} in the network ({len(wrong)} of {len(found)} differ)."
        )


def environment() -> dict[str, Any]:
    """Return versions and machine, the content of env.json."""
    return {
        "mnemoscope": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cpu_count": os.cpu_count(),
        "threads": present_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        **({"plugins": plugins} if (plugins := registry.loaded_plugins()) else {}),
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")  # on Linux, platform.processor() is vague
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
