"""The runs of an arena: sizes of the networks, configurations, and the choice of learning rates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mnemoscope.arena.cell import TrainedRun
from mnemoscope.arena.definition import Arena, ArenaTask, Entrant
from mnemoscope.config.run_config import RunConfig
from mnemoscope.networks.sizes import count_parameters, count_state, find_size
from mnemoscope.tasks import Task
from mnemoscope.training.build import build_model, build_task

Sizes = Mapping[tuple[str, str], int]
"""Hidden sizes by the names of network and task."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of an arena."""

    network: str
    task: ArenaTask
    config: RunConfig


@dataclass(frozen=True)
class PlannedCell:
    """The runs of one network on one task."""

    tuning: tuple[PlannedRun, ...]
    tables: Mapping[float, tuple[PlannedRun, ...]]
    """Runs with the seeds of the table, for each learning rate that the tuning may choose."""
    target: float | None
    """Accuracy at which a training stops."""


def matched_sizes(arena: Arena) -> dict[tuple[str, str], int]:
    """Return the hidden size at which each network has the size of the arena, for each task that it runs.

    It differs between tasks, as the embedding and the readout have the size of the task's vocabulary. Raises if a
    network cannot come as close to the size as the tolerance asks.
    """
    sizes: dict[tuple[str, str], int] = {}
    for network in arena.networks:
        start = None
        for task in arena.tasks:
            if not arena.reason_empty(network.name, task.name):
                start = sizes[network.name, task.name] = _matched_size(arena, network, task, start)
    return sizes


def planned_cells(arena: Arena, sizes: Sizes) -> Iterator[PlannedCell]:
    """Yield the cells of the table that are run, network by network."""
    for (network_name, task_name), size in sizes.items():
        network, task, rates = arena.network(network_name), arena.task(task_name), arena.tuning.learning_rates
        yield PlannedCell(
            tuple(_planned(arena, network, task, size, rate, arena.tuning.seed) for rate in rates),
            {rate: tuple(_planned(arena, network, task, size, rate, seed) for seed in arena.seeds) for rate in rates},
            run_settings(arena, task).get("target_score"),
        )


def planned_runs(
    arena: Arena, sizes: Sizes, finished: Iterable[TrainedRun]
) -> Iterator[tuple[PlannedRun, TrainedRun | None]]:
    """Yield every run that can be planned now, with its result if it has finished.

    These are all tuning runs, and the runs of the cells whose tuning is complete. A finished run belongs to a planned
    one if their hashes agree, so that a run with other settings than the arena's counts as missing.
    """
    found = {(run.network, run.task, run.hash): run for run in finished}

    def with_result(planned: PlannedRun) -> tuple[PlannedRun, TrainedRun | None]:
        return planned, found.get((planned.network, planned.task.name, planned.config.hash))

    for cell in planned_cells(arena, sizes):
        tuning = list(map(with_result, cell.tuning))
        yield from tuning
        ended = [run for _, run in tuning if run is not None]
        rate = chosen_rate(ended, cell.target) if len(ended) == len(tuning) else None
        if rate is not None:
            yield from map(with_result, cell.tables[rate])


def planned_again(arena: Arena, run: TrainedRun) -> PlannedRun:
    """Return a run of the arena's table with the training settings that the arena has now, such as its device."""
    network, task = arena.network(run.network), arena.task(run.task)
    return _planned(arena, network, task, run.hidden_size, run.learning_rate, run.seed)


def chosen_rate(runs: Iterable[TrainedRun], target: float | None = None) -> float | None:
    """Return the learning rate of the tuning run with the highest accuracy; None if none stayed finite.

    Runs that reached the target accuracy, at which training stops, count as equal; of these, the one with the fewest
    steps is chosen. Among equal runs, the lowest loss decides, and then the lowest rate.
    """

    def order(run: TrainedRun) -> tuple[float, ...]:
        accuracy, steps, loss = run.accuracy or 0.0, run.steps or 0, run.loss or 0.0
        reached = target is not None and accuracy >= target
        return (-1.0 if reached else -accuracy, steps if reached else 0, loss, run.learning_rate)

    finite = [run for run in runs if run.accuracy is not None]
    return min(finite, key=order).learning_rate if finite else None


def run_settings(arena: Arena, task: ArenaTask) -> dict[str, Any]:
    """Return the settings that the arena gives to the runs of a task."""
    return {**arena.training, **task.settings}


def sequence_length(task: Task) -> int:
    """Return the number of steps of a training sequence, the first one with seed 0."""
    return len(task.batch(1, 0, 0).mask)


def _planned(arena: Arena, network: Entrant, task: ArenaTask, hidden_size: int, rate: float, seed: int) -> PlannedRun:
    config = RunConfig(
        name=f"{network.name}.{task.name}",
        task=task.task,
        task_options=dict(task.task_options),
        cell=network.cell,
        cell_options=dict(network.cell_options),
        hidden_size=hidden_size,
        learning_rate=rate,
        orthogonal_learning_rate=None if network.orthogonal_ratio is None else network.orthogonal_ratio * rate,
        seed=seed,
        **run_settings(arena, task),
    )
    return PlannedRun(network.name, task, config)


def _matched_size(arena: Arena, network: Entrant, task: ArenaTask, start: int | None) -> int:
    """Return the hidden size of one network for one task; the search starts at that of another task."""
    match, rate = arena.match, arena.tuning.learning_rates[0]
    config = _planned(arena, network, task, network.multiple, rate, arena.tuning.seed).config
    built = build_task(config)
    length = None if match.state is None else sequence_length(built)

    def count(size: int) -> int:
        model = build_model(replace(config, hidden_size=size), built)
        return count_parameters(model) if length is None else count_state(model.cell, length)

    size = find_size(count, match.target, network.multiple, start)
    reached = count(size)
    if abs(reached - match.target) > match.tolerance * match.target:
        raise ValueError(
            f"The network {network.name!r} cannot have about {match.target:,} {match.quantity} on the task "
            f"{task.name!r}: it comes closest with {reached:,} at a hidden size of {size}. Change its options or its "
            f"`multiple`, raise the tolerance of [match], or leave the cell empty and give the reason."
        )
    return size
