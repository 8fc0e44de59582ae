"""One cell of an arena as a job of an engine: train, then measure sizes, energy and accuracy at longer spans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mnemoscope.arena.cell import TrainedRun
from mnemoscope.arena.energy import EnergyMeter, gpu_counters, measured_joules
from mnemoscope.arena.plan import PlannedCell, PlannedRun, chosen_rate, sequence_length
from mnemoscope.base.reading import read_json
from mnemoscope.base.rounding import shortened
from mnemoscope.config.run_config import ENDLESS_EVALUATION, RunConfig
from mnemoscope.engines import Job
from mnemoscope.engines.job_states import FAILED, START_SECONDS
from mnemoscope.networks.sizes import count_parameters, count_state
from mnemoscope.store.schemas import ArenaTrialFile
from mnemoscope.training import build_model, build_task
from mnemoscope.training.evaluation import evaluate_tasks
from mnemoscope.training.run_folder import RunFolder
from mnemoscope.training.trial import TRIAL, train_or_diverge, write_trial

SUBFOLDER = "arenas"
"""Folder of all arenas, inside the folder of all runs."""


def arena_job(arena: str, cell: PlannedCell, finished: Iterable[TrainedRun], root: str | Path) -> Job | None:
    """Return the job that trains the missing runs of a cell, one after another; None if the cell is complete.

    They share a process, since its start, with imports and the first compiled steps, takes as long as a short training.
    A run of the table needs the learning rate that the tuning chooses, so that the job has those of every rate.

    Args:
        arena: name of the arena.
        cell: what to run.
        finished: runs that are not repeated.
        root: folder of all runs.

    """
    below, first = f"{SUBFOLDER}/{arena}", cell.tuning[0]
    found = {run.hash: run for run in finished if (run.network, run.task) == (first.network, first.task.name)}
    tuned = [found[run.config.hash] for run in cell.tuning if run.config.hash in found]
    missing = [run for run in cell.tuning if run.config.hash not in found]
    rates = [*cell.tables]
    if not missing:
        rate = chosen_rate(tuned, cell.target)
        rates = [] if rate is None else [rate]
    tables = {rate: [run for run in cell.tables[rate] if run.config.hash not in found] for rate in rates}
    if not missing and not any(tables.values()):
        return None
    return Job(
        f"{first.network} on {first.task.name}",
        "mnemoscope.arena.measurement:run_cell",
        {
            "tuning": list(map(_as_entry, missing)),
            "tuned": list(map(_as_ended, tuned)),
            "tables": [{"rate": rate, "runs": list(map(_as_entry, runs))} for rate, runs in tables.items()],
            "target": cell.target,
            "below": below,
        },
        str(root),
        f"{below}/{first.config.name}",
        min(START_SECONDS, first.task.seconds),
    )


def _as_entry(run: PlannedRun) -> dict[str, Any]:
    names = {"network": run.network, "task": run.task.name}
    return {**names, "settings": asdict(run.config), "spans": list(run.task.longer)}


def _as_ended(run: TrainedRun) -> dict[str, Any]:
    """Return what the choice of a learning rate needs, as JSON values."""
    return {name: value for name, value in asdict(run).items() if not isinstance(value, tuple)}


def run_cell(
    tuning: Sequence[Mapping[str, Any]],
    tuned: Sequence[Mapping[str, Any]],
    tables: Sequence[Mapping[str, Any]],
    target: float | None,
    below: str,
    root: str,
) -> None:
    """Train the runs of a cell in their folders in `<root>/<below>`, one after another. Engines call this function.

    Args:
        tuning: runs of the tuning to train.
        tuned: those that have finished before: the fields of `TrainedRun`, without its curves.
        tables: a learning rate that may be chosen, with its runs of the table to train.
        target: accuracy at which a training stops.
        below: folder of the arena's runs, in `root`.
        root: folder of all runs.

    """
    home, ended = Path(root, below), [TrainedRun(**run) for run in tuned]
    for run in tuning:
        run_entry(run["settings"], run["spans"], home)
        entry = read_entry(run["network"], run["task"], RunConfig(**run["settings"]), home)
        assert entry is not None
        ended.append(entry[0])
    rate = chosen_rate(ended, target)
    chosen = [run for table in tables if table["rate"] == rate for run in table["runs"]]
    for run in chosen:
        run_entry(run["settings"], run["spans"], home)
    for run in (*tuning, *chosen):
        (home / run["settings"]["name"] / FAILED).unlink(missing_ok=True)  # log of an earlier attempt


def run_entry(settings: dict[str, Any], spans: Sequence[int], home: Path) -> None:
    """Train a configuration in its folder in `home`, or resume it, and record what the table needs.

    A run that has ended is not repeated.
    """
    config = RunConfig(**settings)
    folder = config.folder(home)
    if (folder / TRIAL).exists():
        return
    result = train_or_diverge(config, home, [EnergyMeter(gpu_counters() if config.device == "cuda" else None)])
    task = build_task(config)
    model = build_model(config, task)
    result |= {"parameters": count_parameters(model), "state": count_state(model.cell, sequence_length(task))}
    if "diverged" not in result:
        run = RunFolder(folder)
        result |= {
            "joules": measured_joules(folder, result["seconds"]),
            "longer": _accuracies(run, spans, config),
            "curve": [line["accuracy"] for line in run.read_metrics()],
        }
    write_trial(config, home, settings, result)


def read_entry(
    network: str, task: str, config: RunConfig, home: str | Path, with_curve: bool = True
) -> tuple[TrainedRun, Mapping[str, Any]] | None:
    """Return the finished run of a configuration, and the environment in which it was trained; None without one.

    `home` is the folder of the arena's runs.
    """
    folder = config.folder(home)
    if not (folder / TRIAL).exists():
        return None
    result = read_json(folder / TRIAL, ArenaTrialFile)["result"]
    sizes = config.learning_rate, config.hidden_size, result["parameters"], result["state"], folder.name
    run = TrainedRun(
        network,
        task,
        config.seed,
        *sizes,
        environment=0,
        accuracy=shortened(result.get("accuracy")),
        loss=shortened(result.get("loss")),
        steps=result.get("steps"),
        seconds=result.get("seconds"),
        joules=shortened(result.get("joules")),
        longer=tuple(value or 0.0 for value in shortened(result.get("longer", ()))),
        curve=tuple(round(value, 3) for value in result.get("curve", ())) if with_curve else (),
    )
    return run, RunFolder(folder).read_environment()


def _accuracies(run: RunFolder, spans: Sequence[int], config: RunConfig) -> list[float]:
    """Return the accuracy of a trained network at longer spans, on sequences that are the same for all networks."""
    model, task, _ = run.load_model(training_device=True)
    tasks = {span: task.at(span) for span in spans}
    batches = config.evaluate_batches or ENDLESS_EVALUATION
    scores = evaluate_tasks(model, tasks, sequences=config.batch_size, batches=batches, seed=config.seed)
    return [scores[span]["accuracy"] for span in spans]
