"""One run of an arena as a job of an engine: train, then measure sizes, energy and accuracy at longer spans."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mnemoscope.arena.cell import TrainedRun
from mnemoscope.arena.energy import EnergyMeter, gpu_counters, measured_joules
from mnemoscope.arena.plan import PlannedRun, sequence_length
from mnemoscope.base.reading import read_json
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


def arena_job(arena: str, runs: Sequence[PlannedRun], root: str | Path) -> Job:
    """Return the job that trains some runs of one network on one task, one after another.

    They share a process, since its start, with imports and the first compiled steps, takes as long as a short training.
    """
    below, first = f"{SUBFOLDER}/{arena}", runs[0]
    configs = [{"settings": asdict(run.config), "spans": list(run.task.longer)} for run in runs]
    rates, seeds = ({getattr(run.config, name) for run in runs} for name in ("learning_rate", "seed"))
    what = f"seed{'s' if len(seeds) > 1 else ''} {_listed(seeds)}"
    what = f"rates {_listed(rates)}, {what}" if len(rates) > 1 else what
    return Job(
        f"{first.network} on {first.task.name}, {what}",
        "mnemoscope.arena.measurement:run_entries",
        {"runs": configs, "below": below},
        str(root),
        f"{below}/{first.config.name}",
        min(START_SECONDS, first.task.seconds),
    )


def run_entries(runs: Sequence[Mapping[str, Any]], below: str, root: str) -> None:
    """Train runs in their folders in `<root>/<below>`, one after another. Engines call this function."""
    for run in runs:
        run_entry(run["settings"], run["spans"], Path(root, below))
    (Path(root, below, runs[0]["settings"]["name"]) / FAILED).unlink(missing_ok=True)  # log of an earlier attempt


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
    planned: PlannedRun, arena: str, root: str | Path, with_curve: bool = True
) -> tuple[TrainedRun, Mapping[str, Any]] | None:
    """Return the finished run of a plan, and the environment in which it was trained; None if it has not finished."""
    config = planned.config
    folder = config.folder(Path(root, SUBFOLDER, arena))
    if not (folder / TRIAL).exists():
        return None
    result = read_json(folder / TRIAL, ArenaTrialFile)["result"]
    sizes = config.learning_rate, config.hidden_size, result["parameters"], result["state"], folder.name
    run = TrainedRun(
        planned.network,
        planned.task.name,
        config.seed,
        *sizes,
        environment=0,
        accuracy=_rounded(result.get("accuracy")),
        loss=_rounded(result.get("loss")),
        steps=result.get("steps"),
        seconds=result.get("seconds"),
        joules=_rounded(result.get("joules")),
        longer=tuple(_rounded(value) or 0.0 for value in result.get("longer", ())),
        curve=tuple(round(value, 3) for value in result.get("curve", ())) if with_curve else (),
    )
    return run, RunFolder(folder).read_environment()


def _accuracies(run: RunFolder, spans: Sequence[int], config: RunConfig) -> list[float]:
    """Return the accuracy of a trained network at longer spans, on sequences that are the same for all networks."""
    model, task, _ = run.load_model()
    tasks = {span: task.at(span) for span in spans}
    batches = config.evaluate_batches or ENDLESS_EVALUATION
    scores = evaluate_tasks(
        model.to(config.device), tasks, sequences=config.batch_size, batches=batches, seed=config.seed
    )
    return [scores[span]["accuracy"] for span in spans]


def _listed(values: Collection[float]) -> str:
    return ", ".join(f"{value:g}" for value in sorted(values))


def _rounded(value: float | None) -> float | None:
    """Return a number with five significant digits, to keep the files of results short."""
    return None if value is None else float(f"{value:.5g}")
