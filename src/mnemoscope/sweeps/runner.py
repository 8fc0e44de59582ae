"""Run a sweep on any engine: every run once, resumable, followed by the table and the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from mnemoscope.base.files import lock_folder, write_atomically, write_json
from mnemoscope.engines import Engine, Event, InProcess, Job
from mnemoscope.engines.job_display import JobDisplay
from mnemoscope.report.markup import check_report_extra
from mnemoscope.store import read_runs
from mnemoscope.sweeps.page import render_sweep
from mnemoscope.sweeps.proposers import Proposer, hide_passwords, make_proposer, storage_name
from mnemoscope.sweeps.results import SweepResult, best_first, objective_value, point_result, read_report
from mnemoscope.sweeps.sweep import SUBFOLDER, Point, Sweep, prepare_folder, sweep_folder
from mnemoscope.training import build_model, build_task, evaluate
from mnemoscope.training.trial import TRIAL

ENOUGH_FAILED = 3
"""Number of points after which a sweep gives up if none of its runs has ended."""


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
    """Run every point of a sweep with every seed, and write `summary.json` and `page.html` into its folder.

    Args:
        sweep: what to run.
        root: folder of all runs; the folder of the sweep is `<root>/sweeps/<name>`.
        resume: keep the runs that have ended and run the rest; without it, a folder that has runs is refused.
        storage: URL of the database in which Optuna keeps its state; None: a journal in the folder of the sweep.
        progress: whether to show progress bars.
        engine: where to run; None: in this process, one run after the other.
        command: the command line, for the page.

    """
    check_report_extra()
    place = storage_name(sweep, storage)
    for point in sweep.probes():
        sweep.check(point)
    _check_objective(sweep)
    folder = sweep_folder(sweep.base.name, root)
    with lock_folder(folder, "running a sweep"):
        prepare_folder(sweep, folder, resume, place)
        # raises on a damaged one
        earlier = {path.parent.name for path in folder.glob(f"*/{TRIAL}") if read_report(path)}
        proposer = make_proposer(sweep, folder, storage)
        display = JobDisplay(sweep.base.name, sweep.point_count * len(sweep.seeds), progress)
        events = _events(sweep, Path(root), proposer, engine or InProcess(progress), display, bool(earlier))
        failed = [
            outcome.save_log(folder / f"{Path(outcome.job.folder).name}.failed.log")
            for outcome in display.outcomes(events)
            if outcome.error is not None
        ]
        proposed = proposer.proposed()
        points = best_first([point_result(sweep, point, folder) for point in proposed], sweep)
        if not points:
            raise RuntimeError("\n".join(["No run was finished.", *failed]))
        runs = {sweep.config(point, seed).hash for point in proposed for seed in sweep.seeds}
        problems = [f"{run['folder']}: {run['problem']}" for run in read_runs(folder) if run["problem"] is not None]
        page = folder / "page.html"
        result = SweepResult(sweep, folder, page, points, len(runs), len(runs & earlier), failed, problems)
        write_json(folder / "summary.json", result.as_json())
        write_atomically(page, render_sweep(result, hide_passwords(command)).encode())
    return result


def _events(
    sweep: Sweep, root: Path, proposer: Proposer, engine: Engine, display: JobDisplay, any_ended: bool
) -> Iterator[Event]:
    """Ask for points, run them and pass on their results, until there are no more points or nothing can be run.

    The result of a point with a failed run is not passed on: the point is tried again when the sweep resumes.
    """
    folder, tried = sweep_folder(sweep.base.name, root), 0
    while points := proposer.ask():
        for point in points:
            sweep.check(point)
        jobs = _jobs(sweep, root, points)
        display.skip(len(points) * len(sweep.seeds) - len(jobs))
        yield from engine.events(jobs)
        results = [point_result(sweep, point, folder) for point in points]
        for point, result in zip(points, results, strict=True):
            if len(result.runs) == len(sweep.seeds):
                proposer.tell(point, result.value)
        any_ended, tried = any_ended or any(result.runs for result in results), tried + len(points)
        if not any_ended and tried >= ENOUGH_FAILED:
            return  # the next points would fail for the same reason


def _jobs(sweep: Sweep, root: Path, points: Sequence[Point]) -> list[Job]:
    """Return the jobs of the runs that have not ended, each once."""
    jobs: dict[str, Job] = {}
    for point in points:
        for seed in sweep.seeds:
            config = sweep.config(point, seed)
            folder = sweep_folder(sweep.base.name, "") / config.hash
            if not (root / folder / TRIAL).exists():
                arguments = {"settings": asdict(config), "below": SUBFOLDER}
                function = "mnemoscope.training.trial:run_trial"
                jobs[config.hash] = Job(f"{point}, seed {seed}", function, arguments, str(root), str(folder))
    return list(jobs.values())


def _check_objective(sweep: Sweep) -> None:
    """Raise if the runs do not report the objective, which an untrained network shows.

    Tasks with data are not checked, because their data may have to be downloaded first.
    """
    task = build_task(sweep.base)
    if getattr(task, "finite", False):
        return
    model = build_model(sweep.base, task)
    scores = evaluate(model, task, [task.batch(2, seed=0, number=0)])
    objective_value({**scores, "steps": 0, "seconds": 0.0, "baseline": 0.0}, sweep.objective)
