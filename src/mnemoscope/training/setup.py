"""Preparation of a run: task, model, optimiser and folder, checked before work starts, and settings of the CPU."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, get_args

import torch
from torch.optim import Optimizer

from mnemoscope.base.allocator import kept_memory
from mnemoscope.base.torch_state import flushed_denormals, present_threads
from mnemoscope.cells import Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.connectivity import attach_matrices
from mnemoscope.tasks import Split, Task
from mnemoscope.training.build import build_model, build_task
from mnemoscope.training.callbacks import Callback
from mnemoscope.training.loggers import build_loggers
from mnemoscope.training.optimiser import build_optimiser
from mnemoscope.training.process_group import ProcessGroup, check_divisible
from mnemoscope.training.result import TrainResult
from mnemoscope.training.run_folder import RunFolder


class Setup(NamedTuple):
    """Parts of a run that is about to start or to continue."""

    task: Task
    model: Model
    optimiser: Optimizer
    loggers: list[Callback]
    """Loggers that `config.log` names; empty except on the main process."""


def set_up(
    config: RunConfig,
    folder: RunFolder,
    group: ProcessGroup,
    resources: ExitStack,
    *,
    resume: bool,
    overwrite: bool,
    progress: bool,
) -> Setup | TrainResult:
    """Prepare a run in its folder, or return the stored result of a finished one.

    Everything that can fail is built before the folder changes. The main process decides and locks the folder.
    """
    setup: Setup | None = None

    def prepare() -> dict[str, Any] | None:
        nonlocal setup
        decision = folder.decide(config, resume=resume, overwrite=overwrite)
        if decision == "finished":
            return folder.read_result().as_json()
        setup = _build(config, group, build_loggers(config.log), progress)
        resources.enter_context(folder.lock())
        if decision == "start":
            folder.start(config, group.world_size)
        folder.remove_temporary_files()
        return None

    stored = group.on_main(prepare)
    if stored is not None:
        return TrainResult.from_json(stored, folder.path)
    return setup or _build(config, group, [], progress=False)


@contextmanager
def cpu_settings(threads: int | None) -> Generator[None]:
    """Use so many CPU threads (None: as before), keep freed memory, and with one thread treat denormal numbers as 0.

    A converged network is full of denormal numbers: a quarter of Adam's moments for an encoder with a saturated
    softmax, for example. On x86, a step of a Turing machine that has unlearned its task takes four times as long.
    """
    before = present_threads()
    torch.set_num_threads(before if threads is None else threads)
    try:
        with flushed_denormals(), kept_memory():
            yield
    finally:
        torch.set_num_threads(before)


def _build(config: RunConfig, group: ProcessGroup, loggers: list[Callback], progress: bool) -> Setup:
    task = build_task(config)
    model = build_model(config, task).to(_device(config))
    optimiser = build_optimiser(config, model)
    attach_matrices(model, optimiser)
    if group.world_size > 1:
        check_divisible(group, config.batch_size, model)
    task.prepare(progress)
    for split in get_args(Split):
        task.batches(config.batch_size, split)  # raises if a batch is larger than the data
    return Setup(task, model, optimiser, loggers)


def _device(config: RunConfig) -> torch.device:
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            'device is "cuda", but torch sees no GPU here. Use device = "cpu", or a torch built with CUDA.'
        )
    return torch.device(config.device)
