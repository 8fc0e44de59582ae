"""The state of the run list: which trials are in the results, with their device time, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mnemoscope.base.files import write_marked
from mnemoscope.replication.results import results_file, stored_trials
from mnemoscope.replication.run_list import PlannedRun
from mnemoscope.replication.study import DEVICE, Finished
from mnemoscope.replication.trial_files import study_folder, trial_file

HEADINGS = (
    "study",
    "preset",
    "trials",
    "seeds",
    "done",
    "left",
    "estimated",
    "measured",
    "device hours left",
    "decides",
)
SHOWN = 6
"""Names of trials in a cell of the table."""
FILE = "RUNS.md"
"""File of the status in the folder of results."""
MARKS = ("<!-- runs -->", "<!-- end of runs -->")
"""Marks around the status in a Markdown file."""
COMMAND = "mnemoscope replicate --markdown results/RUNS.md"
LEAD = (
    "The trials of [run_list.toml](run_list.toml), in order: first those that decide rows of the "
    "[scoreboard](../SCOREBOARD.md) soonest. "
    "Estimated is the device time of all trials of a row; measured is that of its trials in the results that recorded "
    "it; trials on another device than that of their preset are without a record. On a GPU that runs several trainings "
    "at a time, hours pass faster than device hours."
)


@dataclass(frozen=True)
class RunStatus:
    """How much of an entry of the run list is done."""

    planned: PlannedRun
    done: Sequence[Finished]
    """Trials that are in the results."""

    @property
    def left(self) -> int:
        """Number of trials that are not in the results."""
        return len(self.planned.trials) - len(self.done)

    @property
    def estimated(self) -> float:
        """Estimated device time of all trials, in seconds."""
        return len(self.planned.trials) * self.planned.seconds

    @cached_property
    def recorded(self) -> list[float]:
        """Seconds of the trials that recorded them and ran on the device of their preset."""
        there = [each for each in self.done if DEVICE not in each.environment]
        return [each.result["seconds"] for each in there if "seconds" in each.result]

    @property
    def measured(self) -> float:
        """Device time of the trials that recorded it, in seconds."""
        return sum(self.recorded)

    @property
    def unrecorded(self) -> int:
        """Number of other trials in the results: they did not stay finite, or ran on another device."""
        return len(self.done) - len(self.recorded)

    @property
    def seconds_left(self) -> float:
        """Device time of what is left, in seconds, by the mean of the recorded trials, or as estimated without any."""
        return self.left * (self.measured / len(self.recorded) if self.recorded else self.planned.seconds)


def find_status(planned: Sequence[PlannedRun], results: str | Path) -> list[RunStatus]:
    """Compare a run list with the results."""
    stored: dict[Path, dict[str, Finished]] = {}
    status = []
    for each in planned:
        path = results_file(results, each.study.name, each.preset)
        if path not in stored:
            found = stored_trials(path, each.study) if path.exists() else []
            stored[path] = {one.trial.hash: one for one in found}
        hashes = [trial.hash for trial in each.trials]
        status.append(RunStatus(each, [stored[path][one] for one in hashes if one in stored[path]]))
    return status


def count_uncollected(status: Sequence[RunStatus], root: str | Path) -> int:
    """Return how many planned trials have finished in the folder of runs and are not in the results."""
    number = 0
    for each in status:
        done = {one.trial.hash for one in each.done}
        folder = study_folder(each.planned.study, each.planned.preset, root)
        number += sum(trial.hash not in done and trial_file(folder, trial).exists() for trial in each.planned.trials)
    return number


def status_table(status: Sequence[RunStatus]) -> list[dict[str, str]]:
    """Return the status as rows of text, with the totals last."""
    rows = [
        _row(
            each.planned.study.name,
            each.planned.preset,
            _names(each.planned),
            _numbers(each.planned.seeds),
            each.planned.why,
            [each],
        )
        for each in status
    ]
    number = sum(len(each.planned.trials) for each in status)
    return [*rows, _row("all", "", f"{number}", "", "", status)]


def write_status(path: str | Path, status: Sequence[RunStatus]) -> Path:
    """Write the status as a table into a new Markdown file, or between the marks of an existing one."""
    lines = ["# Runs", "", _totals(status), "", LEAD, "", f"Written by `{COMMAND}`.", ""]
    cells = [HEADINGS, ["---"] * len(HEADINGS), *(row.values() for row in status_table(status))]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
    return write_marked(path, MARKS, "\n".join(lines))


def _totals(status: Sequence[RunStatus]) -> str:
    done, left = sum(len(each.done) for each in status), sum(each.left for each in status)
    hours = sum(each.seconds_left for each in status) / 3600
    rest = f"The other {left} would take about {hours:,.0f} device hours." if left else "None is left."
    return f"Of {done + left} planned trials, {done} are done. {rest}"


def _row(study: str, preset: str, trials: str, seeds: str, why: str, status: Sequence[RunStatus]) -> dict[str, str]:
    unrecorded = sum(each.unrecorded for each in status)
    note = f", {unrecorded} without a record" if unrecorded else ""
    hours = sum(each.seconds_left for each in status) / 3600
    values = (
        study,
        preset,
        trials,
        seeds,
        f"{sum(len(each.done) for each in status)}",
        f"{sum(each.left for each in status)}",
        _duration(sum(each.estimated for each in status)),
        _duration(sum(each.measured for each in status)) + note if any(each.done for each in status) else "",
        f"{hours:.2g}" if 0 < hours < 10 else f"{hours:,.0f}" * (hours > 0),
        why,
    )
    return dict(zip(HEADINGS, values, strict=True))


def _names(planned: PlannedRun) -> str:
    """Return the names of the trials, or of the first ones if there are many; the run list has all of them."""
    names = list(dict.fromkeys(trial.name for trial in planned.trials))
    rest = [f"and {len(names) - SHOWN} others"] if len(names) > SHOWN + 1 else []
    return "; ".join([*(names[:SHOWN] if rest else names), *rest])


def _duration(seconds: float) -> str:
    """Return a time in the unit that suits it.

    >>> _duration(95), _duration(5400)
    ('95 s', '1.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _numbers(values: Sequence[int]) -> str:
    """Return whole numbers as text, with ranges.

    >>> _numbers((0, 1, 2, 5))
    '0 to 2, 5'
    """
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
