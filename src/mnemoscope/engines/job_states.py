"""The states in which jobs end, or do not: what a slice of some minutes has done of a long list of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mnemoscope.engines.job import Event, Job, Outcome
from mnemoscope.engines.job_display import JobDisplay

STATES = ("finished", "interrupted", "failed", "left")
"""States of a job; "left" if it was not started, since the time was over."""
FAILED = "failed.log"
"""Log file of a job that failed, in its folder."""
START_SECONDS = 30.0
"""Time in which a training starts on a GPU: imports, the first compiled step. An interruption before gains nothing."""


@dataclass(frozen=True)
class JobStates:
    """The state of every job, and what is known about failures."""

    states: dict[str, str]
    """One of `STATES` for each job, by its folder."""
    failed: list[str]
    """Messages about the jobs that failed, with their log files."""


def follow_jobs(
    jobs: Sequence[Job],
    events: Iterable[Event],
    display: JobDisplay,
    report: Callable[[str], None] | None = None,
) -> JobStates:
    """Display the events of jobs until the last, write the logs of those that fail, and return all states.

    Args:
        jobs: the jobs that the engine was given.
        events: the events of the engine.
        display: shows the events.
        report: called with a sentence about every job that ends.

    """
    states, failed = {job.folder: "left" for job in jobs}, []
    for outcome in display.outcomes(events):
        state = states[outcome.job.folder] = _state(outcome)
        if state == "failed":
            failed.append(outcome.save_log(Path(outcome.job.root, outcome.job.folder, FAILED)))
        if report is not None:
            report(f"{state} after {outcome.seconds:.0f} s: {outcome.job.name}")
    return JobStates(states, failed)


def _state(outcome: Outcome) -> str:
    if outcome.error is None:
        return "finished"
    return "interrupted" if outcome.interrupted else "failed"
