"""Checkpoints of a run: restored on all processes, written by the main one."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import torch
from torch.optim import Optimizer

from mnemoscope.cells import Model
from mnemoscope.cells.state import map_state
from mnemoscope.config.run_config import RunConfig
from mnemoscope.training.checkpoint import Carried, Counters, restore_checkpoint, save_checkpoint
from mnemoscope.training.evaluator import Evaluator
from mnemoscope.training.metrics_file import MetricsFile
from mnemoscope.training.process_group import ProcessGroup
from mnemoscope.training.run_folder import RunFolder


class CheckpointStore:
    """The checkpoint file of a run, and the time spent on the run so far.

    Model and optimiser are saved, and restored in place. A checkpoint of other settings than `config` is refused.
    """

    def __init__(
        self, folder: RunFolder, model: Model, optimiser: Optimizer, config: RunConfig, group: ProcessGroup
    ) -> None:
        self._path, self._model, self._optimiser = folder.checkpoint, model, optimiser
        self._config, self._group = config, group
        self._started = perf_counter()

    def restore(self) -> tuple[Counters, Carried]:
        """Return counters and carried tensors at the last checkpoint, or at the start if there is none.

        Rank 0 reads the file and sends it, as other machines may not see its file system.
        """
        group = self._group
        counters, carried = Counters(threads=torch.get_num_threads(), processes=group.world_size), Carried()
        if group.on_main(self._path.exists):
            with nullcontext(self._path.parent) if group.is_main else TemporaryDirectory() as folder:
                path = Path(folder) / self._path.name
                if group.world_size > 1:
                    content = group.broadcast(path.read_bytes() if group.is_main else None)
                    if not group.is_main:
                        path.write_bytes(content)
                counters, carried = restore_checkpoint(path, self._model, self._optimiser, self._config.hash)
            if counters.step > self._config.steps:
                raise ValueError(
                    f"{self._path} is damaged: it has {counters.step} steps of {self._config.steps}. Start the run "
                    f"again with overwrite=True."
                )
            if carried.state is not None and group.world_size > 1:
                shard = group.shard(self._config.batch_size)
                carried.state = map_state(lambda whole: whole[shard], carried.state)
            if group.is_main:
                _warn_of_rounding(counters, group, self._config.device)
        group.check_same_weights(self._model)
        self._started = perf_counter() - counters.seconds
        return counters, carried

    def save(self, counters: Counters, carried: Carried, metrics: MetricsFile, evaluator: Evaluator) -> None:
        """Write the checkpoint, after the metrics that belong to it.

        The weights have changed since the last loss, so one batch is evaluated first: weights without a finite loss
        must not replace a good checkpoint.
        """
        self._group.check_same_weights(self._model)
        carried = replace(carried, state=self._group.gather_state(carried.state, self._config.batch_size))

        def write() -> None:
            evaluator.check_finite(counters)
            counters.metrics_size = metrics.synchronise()
            counters.seconds = perf_counter() - self._started
            save_checkpoint(self._path, self._model, self._optimiser, counters, carried, self._config.hash)

        self._group.on_main(write)


def _warn_of_rounding(start: Counters, group: ProcessGroup, device: str) -> None:
    """Warn if the run continues with another number of processes or threads than it started with."""
    before, now = start.threads, torch.get_num_threads()
    effect = "its numbers may differ in the last digits from those of a run without interruption. To have the same,"
    if start.processes != group.world_size:
        warnings.warn(
            f"This run was begun by {_count(start.processes)} and goes on with {_count(group.world_size)}: {effect} "
            f"use as many.",
            stacklevel=5,  # the caller of train
        )
    elif device == "cpu" and before is not None and before != now:
        warnings.warn(
            f"This run was begun with {before} CPU threads and goes on with {now}: {effect} set threads = {before} "
            f"(`--threads {before}`).",
            stacklevel=5,
        )


def _count(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"
