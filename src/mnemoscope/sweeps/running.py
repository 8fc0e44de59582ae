"""Run a sweep: every run once, resumable, by any engine; then the table and the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mnemoscope.base.files import claimed, write_atomically, write_json
from mnemoscope.engines import Engine, Event, Here, Job
from mnemoscope.engines.display import Display
from mnemoscope.report.markup import check_report_extra
from mnemoscope.store import read_runs
from mnemoscope.sweeps.page import render_sweep
from mnemoscope.sweeps.proposing import Proposer, proposer, storage_name, without_password
from mnemoscope.sweeps.results import SweepResult, best_first, point_result, read_ended, value_of
from mnemoscope.sweeps.sweep import HOME, Point, Sweep, begin, sweep_folder
from mnemoscope.training import build_model, build_task, evaluate
from mnemoscope.training.trial import TRIAL

ENOUGH_FAILED = 3
"""Points after which a sweep gives up, if no run of it has ever ended."""


def run_sweep(
    sweep: Sweep,
    root: str | Path = "runs",
    *,
    resume: bool = False,
    storage: str | None = None,
    progress: bool = True,
    engine: Engine | None = None,
    command: str = "",
) -> SweepResult:
    """Run the points of a sweep, each with every seed, and write `summary.json` and `page.html` beside the runs.

    Args:
        sweep: what to run.
        root: the sweep lives in `<root>/sweeps/<name>`, each run in a folder named by the hash of its configuration.
        resume: keep the runs that have ended and run the rest; without it, a folder that holds runs is refused.
        storage: URL of the database in which Optuna keeps what it knows; None: a journal in the folder.
        progress: show progress bars.
        engine: where runs are done; None: one after the other, here.
        command: that asked for it, for the page.

    """
    check_report_extra()
    kept_in = storage_name(sweep, storage)
    for point in sweep.probes():
        sweep.check(point)
    _check_objective(sweep)
    folder = sweep_folder(sweep.base.name, root)
    with claimed(folder, "running a sweep"):
        begin(sweep, folder, resume, kept_in)
        earlier = {path.parent.name for path in folder.glob(f"*/{TRIAL}") if read_ended(path)}  # a broken one is told
        choosing = proposer(sweep, folder, storage)
        display = Display(sweep.base.name, sweep.number * len(sweep.seeds), progress)
        events = _events(sweep, Path(root), choosing, engine or Here(progress), display, bool(earlier))
        failed = [
            one.kept(folder / f"{Path(one.job.own).name}.failed.log")
            for one in display.outcomes(events)
            if one.error is not None
        ]
        chosen = choosing.chosen()
        points = best_first([point_result(sweep, point, folder) for point in chosen], sweep)
        if not points:
            raise RuntimeError("\n".join(["No run was finished.", *failed]))
        runs = {sweep.config(point, seed).hash for point in chosen for seed in sweep.seeds}
        problems = [f"{run['folder']}: {run['problem']}" for run in read_runs(folder) if run["problem"] is not None]
        page = folder / "page.html"
        result = SweepResult(sweep, folder, page, points, len(runs), len(runs & earlier), failed, problems)
        write_json(folder / "summary.json", result.as_json())
        write_atomically(page, render_sweep(result, without_password(command)).encode())
    return result


def _events(
    sweep: Sweep, root: Path, choosing: Proposer, engine: Engine, display: Display, any_ended: bool
) -> Iterator[Event]:  # fmt: skip
    """Choose, run, tell, until there is nothing left to choose, or nothing can be run.

    A point of which a run could not be finished is not told: it is tried again when the sweep goes on another time.
    """
    folder, tried = sweep_folder(sweep.base.name, root), 0
    while points := choosing.next():
        for point in points:
            sweep.check(point)
        jobs = _jobs(sweep, root, points)
        display.skip(len(points) * len(sweep.seeds) - len(jobs))
        yield from engine.events(jobs)
        results = [point_result(sweep, point, folder) for point in points]
        for point, result in zip(points, results, strict=True):
            if len(result.runs) == len(sweep.seeds):
                choosing.tell(point, result.value)
        any_ended, tried = any_ended or any(result.runs for result in results), tried + len(points)
        if not any_ended and tried >= ENOUGH_FAILED:
            return  # whatever is wrong, it would be so with the next ones


def _jobs(sweep: Sweep, root: Path, points: Sequence[Point]) -> list[Job]:
    """Those that have not ended, each once."""
    jobs: dict[str, Job] = {}
    for point in points:
        for seed in sweep.seeds:
            config = sweep.config(point, seed)
            own = sweep_folder(sweep.base.name, "") / config.hash
            if not (root / own / TRIAL).exists():
                words = ", ".join(f"{name} {_short(value)}" for name, value in point.values.items())
                jobs[config.hash] = Job(
                    f"{words}, seed {seed}", "mnemoscope.training.trial:run_trial",
                    {"settings": asdict(config), "below": HOME}, str(root), str(own),
                )  # fmt: skip
    return list(jobs.values())


def _check_objective(sweep: Sweep) -> None:
    """Ask an untrained network of an endless task what it reports; data would have to be fetched for it first."""
    task = build_task(sweep.base)
    if getattr(task, "finite", False):
        return
    model = build_model(sweep.base, task)
    scores = evaluate(model, task, [task.batch(2, seed=0, number=0)])
    value_of({**scores, "steps": 0, "seconds": 0.0, "baseline": 0.0}, sweep.objective)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
