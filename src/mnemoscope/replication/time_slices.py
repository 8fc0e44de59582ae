"""Run a slice of the run list: as many trials as fit into some minutes. The next slice continues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from mnemoscope.base.files import lock_folder
from mnemoscope.engines import Job, Local, job_states
from mnemoscope.engines.job_display import JobDisplay
from mnemoscope.replication.results import results_file, stored_trials
from mnemoscope.replication.run_list import PlannedRun
from mnemoscope.replication.runner import need_gpu, trial_job
from mnemoscope.replication.study import Trial
from mnemoscope.replication.trial_files import study_folder, trial_file

STATES = ("done before", *job_states.STATES)
"""States of the trials of a run list after a slice."""


@dataclass(frozen=True)
class SliceResult:
    """Result of a slice: the state of every trial."""

    states: list[tuple[PlannedRun, Counter[str]]]
    """For each entry of the run list, the number of its trials in each of `STATES`."""
    failed: list[str]
    """Messages about the trials that failed, with their log files."""
    too_long: list[str]
    """Messages about trials that make no progress in a slice of this length."""

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each entry with the number of its trials in each state, and a row for all of them."""
        rows = [{"study": each.study.name, "preset": each.preset, **states} for each, states in self.states]
        total = {state: sum(states[state] for _, states in self.states) for state in STATES}
        return [*rows, {"study": "all", "preset": "", **total}]


def run_slice(
    planned: Sequence[PlannedRun],
    minutes: float,
    engine: Local,
    results: str | Path | None,
    root: str | Path = "runs",
    *,
    progress: bool = True,
    report: Callable[[str], None] | None = None,
    device: str | None = None,
) -> SliceResult:
    """Run trials of a run list in its order, several at a time, and interrupt those that still run after the minutes.

    Args:
        planned: the run list.
        minutes: time after which running trials are interrupted. They then have half a minute to write a checkpoint.
        engine: which runs the trials.
        results: folder of results, whose trials are not run again; None: only those in `root` are not.
        root: the trials of a study live in `<root>/studies/<name>/<preset>`, as those of `mnemoscope study`.
        progress: show progress bars.
        report: called with a sentence about every trial that ends.
        device: "cpu" or "cuda", on which networks are trained instead of the device of their preset; None: the
            preset's.

    """
    if not minutes > 0:
        raise ValueError(f"minutes must be above 0, but is {minutes:g}.")
    unfinished = [(each, trial) for each in planned for trial in unfinished_trials(each, results, root)]
    jobs = {_key(each, trial): _job(each, trial, root, device) for each, trial in unfinished}
    _check_gpu([(each, trial.on(device)) for each, trial in unfinished])
    with ExitStack() as locks:
        for folder in {study_folder(each.study, each.preset, root) for each, _ in unfinished}:
            locks.enter_context(lock_folder(folder, "running a study"))
        display = JobDisplay("replicate", len(jobs), progress)
        to_run = list(jobs.values())
        result = job_states.follow_jobs(to_run, engine.events(to_run, 60 * minutes), display, report)
    states = {key: result.states[job.folder] for key, job in jobs.items()}
    return SliceResult([(each, _count(each, states)) for each in planned], result.failed, _too_long(jobs, minutes))


def unfinished_trials(planned: PlannedRun, results: str | Path | None, root: str | Path | None) -> list[Trial]:
    """Return the trials of an entry that are finished neither in the results nor in the root."""
    file = None if results is None else results_file(results, planned.study.name, planned.preset)
    done = {each.trial.hash for each in stored_trials(file, planned.study)} if file and file.exists() else set()
    folder = None if root is None else study_folder(planned.study, planned.preset, root)
    missing = [trial for trial in planned.trials if trial.hash not in done]
    return [trial for trial in missing if folder is None or not trial_file(folder, trial).exists()]


def _key(planned: PlannedRun, trial: Trial) -> tuple[str, str, str]:
    return planned.study.name, planned.preset, trial.hash


def _job(planned: PlannedRun, trial: Trial, root: str | Path, device: str | None) -> Job:
    job = trial_job(planned.study, planned.preset, trial, root, device)
    least = min(job_states.START_SECONDS, planned.seconds) if planned.study.resumes else planned.seconds
    return replace(job, name=f"{planned.study.name} {planned.preset}: {job.name}", least_seconds=least)


def _check_gpu(unfinished: Sequence[tuple[PlannedRun, Trial]]) -> None:
    """Fail early if a trial needs a GPU that this machine lacks."""
    if torch.cuda.is_available():
        return
    names = dict.fromkeys(each.study.name for each, _ in unfinished)
    needing = dict.fromkeys(each.study.name for each, trial in unfinished if need_gpu([trial]))
    if needing:
        others = " ".join(name for name in names if name not in needing)
        remedy = (
            f"Without one, run the others: --studies {others}." if others else "Run the list on a machine with one."
        ) + " Or train all networks on a CPU, often many times more slowly: --device cpu."
        raise ValueError(f"Trials of {', '.join(needing)} need a GPU, and torch finds none here. {remedy}")


def _count(planned: PlannedRun, states: Mapping[tuple[str, str, str], str]) -> Counter[str]:
    found = Counter(states.get(_key(planned, trial), "done before") for trial in planned.trials)
    return Counter({state: found[state] for state in STATES})


def _too_long(jobs: Mapping[tuple[str, str, str], Job], minutes: float) -> list[str]:
    return [
        f"{job.name} makes no progress in less than about {job.least_seconds:.0f} s: give more --minutes."
        for job in jobs.values()
        if job.least_seconds > 60 * minutes
    ]
