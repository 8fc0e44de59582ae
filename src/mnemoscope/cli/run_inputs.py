"""The inputs on which trained runs are compared: trials of their task, or the mean inputs of its conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mnemoscope.cells import Model
from mnemoscope.config import RunConfig
from mnemoscope.lenses import record_activity
from mnemoscope.tasks import Task
from mnemoscope.tasks.cognitive.trial_task import TrialTask

LoadedRun = tuple[Model, Task, RunConfig]


@dataclass(frozen=True)
class RunInputs:
    """Inputs of the networks of a comparison."""

    inputs: Any
    """Inputs of all systems, or a list with those of each."""
    lengths: Tensor | None = None
    """Number of steps of each trial, where trials differ."""
    names: tuple[str, ...] = ()
    """Name of each constant input."""


def draw_trials(folders: Sequence[Path], runs: Sequence[LoadedRun], kind: str, trials: int, seed: int) -> RunInputs:
    """Return "trials" drawn from the task that all runs share, its "grid", or trials of each run's "own" task."""
    if kind == "own":
        drawn = [_drawn(task, trials, seed) for _, task, _ in runs]
        if any(lengths is not None for _, lengths in drawn):
            raise ValueError("Trials of the runs' own tasks must have equal lengths. Compare runs of one task instead.")
        return RunInputs([inputs for inputs, _ in drawn])
    _check_same_task(folders, runs, "pass --inputs own to run each network on trials of its own task (dsa, input-dsa)")
    task = runs[0][1]
    if kind == "trials":
        return RunInputs(*_drawn(task, trials, seed))
    if not isinstance(task, TrialTask):
        raise ValueError(f"The task {runs[0][2].task} has no conditions, and so no grid: pass --inputs trials.")
    grid = task.grid()
    return RunInputs(grid.batch.inputs, grid.table.lengths)


def mean_inputs(
    folders: Sequence[Path], runs: Sequence[LoadedRun], conditions: Sequence[str], epoch: str | None
) -> RunInputs:
    """Return constant inputs: the mean of an epoch for each combination of the conditions, without noise.

    By default they are those that the page of a run analyses; tasks without conditions have the input 0.
    """
    model, task, config = runs[0]
    if not isinstance(task, TrialTask):
        if conditions or epoch is not None:
            raise ValueError(f"The task {config.task} has no conditions or epochs: omit --condition and --epoch.")
        return RunInputs(None)
    if not conditions and epoch is None:
        if task.analysis is None:
            return RunInputs(None)
        conditions = () if task.analysis.context is None else (task.analysis.context,)
        epoch = task.analysis.epoch
    _check_same_task(folders, runs, "compare their fixed points without input, from Python, with ms.compare")
    grid = task.grid()
    found = record_activity(model, grid.batch.inputs, grid.table).mean_inputs(*conditions, epoch=epoch)
    rows = torch.stack(list(found.values())).float()
    names = tuple(found) if conditions else (epoch or "all steps",)
    with torch.no_grad():
        return RunInputs([each.encode(rows) for each, _, _ in runs], names=names)


def _drawn(task: Task, trials: int, seed: int) -> tuple[Tensor, Tensor | None]:
    table = None
    if isinstance(task, TrialTask):
        batch, table = task.trials(trials, seed, 0, "test")
    else:
        batch = task.batch(trials, seed, 0, "test")
    if not isinstance(batch.inputs, Tensor):
        raise ValueError("Networks on relational problems have no trials of many steps, so they are not compared.")
    return batch.inputs, None if table is None else table.lengths


def _check_same_task(folders: Sequence[Path], runs: Sequence[LoadedRun], remedy: str) -> None:
    """Raise an error that names the tasks if the runs do not share one, with its options."""
    first = runs[0][1]
    for folder, (_, task, config) in zip(folders, runs, strict=True):
        if task != first:
            raise ValueError(
                f"{folders[0]} was trained on {runs[0][2].task} and {folder} on {config.task}"
                f"{' with other options' if config.task == runs[0][2].task else ''}, so that no trials suit both. "
                f"Compare runs of one task, or {remedy}."
            )
