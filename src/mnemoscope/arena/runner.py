"""Run an arena on any engine, at once or in slices of some minutes, and collect its runs into one table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from mnemoscope.arena.cell import TrainedRun
from mnemoscope.arena.definition import Arena
from mnemoscope.arena.measurement import SUBFOLDER, arena_job, read_entry
from mnemoscope.arena.plan import Sizes, matched_sizes, planned_cells, planned_runs
from mnemoscope.arena.result import ArenaTable
from mnemoscope.base.files import lock_folder
from mnemoscope.engines import Engine, Event, InProcess, Job, Local
from mnemoscope.engines.job_display import JobDisplay
from mnemoscope.engines.job_states import STATES, follow_jobs
from mnemoscope.training.build import task_named

ACTIVITY = "training networks of this arena"
"""Activity of a process that holds the lock of an arena's folder, for the message to another one."""


@dataclass(frozen=True)
class ArenaProgress:
    """Result of a call of `run_arena`."""

    table: ArenaTable
    """All finished runs, of this call and of earlier ones."""
    finished: int
    """Number of runs that this call has finished."""
    states: Counter[str]
    """Number of jobs of this call in each of `engines.job_states.STATES`. A job tunes one network on one task, and
    trains it with the seeds of the table."""
    failed: list[str]
    """Messages about the jobs that failed, with their log files."""


def run_arena(
    arena: Arena,
    root: str | Path = "runs",
    *,
    known: ArenaTable | None = None,
    engine: Engine | None = None,
    minutes: float | None = None,
    progress: bool = True,
    report: Callable[[str], None] | None = None,
) -> ArenaProgress:
    """Train every network on every task: first with each learning rate of the tuning, then with the seeds of the table.

    A run that has finished, in `root` or in the `known` table, is not repeated. The runs of a cell follow one another,
    so that a call that ends early leaves whole cells.

    Args:
        arena: what to run.
        root: folder of all runs; those of the arena are in `<root>/arenas/<name>/<network>.<task>/<hash>`.
        known: a table of finished runs, such as the committed results.
        engine: where to run; None: in this process, one run after the other.
        minutes: time after which running trainings write a checkpoint and stop; the same call continues them. It needs
            a `Local` engine. None: no limit.
        progress: show progress bars.
        report: called with a sentence about every job that ends.

    """
    engine = engine or InProcess(progress)
    _check(arena, engine, minutes)
    end = None if minutes is None else time.monotonic() + 60 * minutes
    sizes, states, failed = matched_sizes(arena), Counter[str](), list[str]()
    with lock_folder(Path(root, SUBFOLDER, arena.name), ACTIVITY):
        before = collect_runs(arena, root, known, sizes)
        finished = (*before.runs, *(() if known is None else known.runs))
        jobs = _missing_jobs(arena, sizes, finished, root)
        if jobs:
            _check_device(arena, engine)
            display = JobDisplay(arena.name, len(jobs), progress)
            ended = follow_jobs(jobs, _events(engine, jobs, end), display, report)
            states, failed = Counter(ended.states.values()), ended.failed
        table = collect_runs(arena, root, known, sizes)
    counted = Counter({state: states[state] for state in STATES})
    return ArenaProgress(table, len(table.runs) - len(before.runs), counted, failed)


def collect_runs(
    arena: Arena, root: str | Path | None, known: ArenaTable | None = None, sizes: Sizes | None = None
) -> ArenaTable:
    """Return the table of all runs of the arena that have finished, in a folder of runs or in a known table.

    Runs with other settings than the arena has now are left out. A run that is in both is taken from the known table.
    """
    sizes = matched_sizes(arena) if sizes is None else sizes
    found = {(run.network, run.task, run.hash): run for run in (() if known is None else known.runs)}
    environments = list[Mapping[str, Any]](() if known is None else known.environments)
    for _ in range(2):  # the runs of the table can be planned once those of the tuning are known
        for planned, run in list(planned_runs(arena, sizes, found.values())):
            in_table = planned.config.seed in arena.seeds  # curves of the tuning would double the size of the file
            entry = None
            if run is None and root is not None:
                home = Path(root, SUBFOLDER, arena.name)
                entry = read_entry(planned.network, planned.task.name, planned.config, home, in_table)
            if entry is not None:
                if entry[1] not in environments:
                    environments.append(entry[1])
                run = replace(entry[0], environment=environments.index(entry[1]))
                found[run.network, run.task, run.hash] = run
    runs = [run for _, run in planned_runs(arena, sizes, found.values()) if run is not None]
    return _with_used_environments(ArenaTable(arena, tuple(runs), _chances(arena), tuple(environments)))


def _missing_jobs(arena: Arena, sizes: Sizes, finished: Sequence[TrainedRun], root: str | Path) -> list[Job]:
    """Return the jobs of the missing runs, one for each cell, those whose tuning is complete first."""
    jobs = [arena_job(arena.name, cell, finished, root) for cell in planned_cells(arena, sizes)]
    return sorted((job for job in jobs if job is not None), key=lambda job: bool(job.arguments["tuning"]))


def _events(engine: Engine, jobs: Sequence[Job], end: float | None) -> Iterator[Event]:
    if end is None:
        return engine.events(jobs)
    assert isinstance(engine, Local)
    return engine.events(jobs, max(0.0, end - time.monotonic()))


def _check(arena: Arena, engine: Engine, minutes: float | None) -> None:
    """Fail early: options of tasks that are wrong, minutes on an engine that has no clock."""
    if minutes is not None:
        if not minutes > 0:
            raise ValueError(f"minutes must be above 0, but is {minutes:g}.")
        if not isinstance(engine, Local):
            raise ValueError(f"minutes limits the engine local, but the engine is {type(engine).__name__}.")
    for each in arena.tasks:
        task = task_named(each.task, each.task_options)
        if task.finite:
            raise ValueError(
                f"The task {each.name!r} of the arena has a data set, and learning rates would be chosen on the test "
                f"split that is reported. Use a task that generates its sequences."
            )
        for span in each.longer:
            task.at(span)


def _check_device(arena: Arena, engine: Engine) -> None:
    """Fail early if trainings need a GPU that is missing."""
    devices = {arena.training.get("device"), *(task.settings.get("device") for task in arena.tasks)}
    if "cuda" in devices and isinstance(engine, InProcess | Local) and not torch.cuda.is_available():
        raise ValueError(
            f"The arena {arena.name!r} trains on a GPU, and torch finds none here. Choose another device with "
            f'device="cpu", or an engine that finds one elsewhere.'
        )


def _chances(arena: Arena) -> dict[str, float | None]:
    """Return the accuracy of the best predictor without memory on each task; None where the task does not give it."""
    tasks = {each.name: task_named(each.task, each.task_options) for each in arena.tasks}
    return {name: task.chance() for name, task in tasks.items()}


def _with_used_environments(table: ArenaTable) -> ArenaTable:
    """Return the table without environments that none of its runs has."""
    used = sorted({run.environment for run in table.runs})
    runs = tuple(replace(run, environment=used.index(run.environment)) for run in table.runs)
    return replace(table, runs=runs, environments=tuple(table.environments[place] for place in used))
