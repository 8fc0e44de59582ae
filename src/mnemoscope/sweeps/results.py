"""What came out of a sweep: of each point its runs, one for each seed, and the best point first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import mean
from typing import Any

from mnemoscope.base.files import read_json
from mnemoscope.sweeps.search_space import Value
from mnemoscope.sweeps.sweep import Point, Sweep
from mnemoscope.training.trial import TRIAL


@dataclass(frozen=True)
class EndedRun:
    """A run that was finished, or that did not stay finite."""

    seed: int
    hash: str
    value: float | None
    """Of the objective; None: it did not stay finite."""
    reported: Mapping[str, Any]
    """All that it reports."""


@dataclass(frozen=True)
class PointResult:
    """A point and its runs."""

    number: int
    values: Mapping[str, Value]
    runs: Sequence[EndedRun]
    """Of the seeds that have ended."""
    seeds: int
    """How many were asked for."""

    @property
    def value(self) -> float | None:
        """Mean over the seeds; None if one of them has not ended, or did not stay finite: what is left would not be
        comparable with the others.
        """
        values = [run.value for run in self.runs if run.value is not None]
        return mean(values) if len(values) == self.seeds else None

    @property
    def diverged(self) -> int:
        """Runs that did not stay finite."""
        return sum(run.value is None for run in self.runs)


@dataclass(frozen=True)
class SweepResult:
    """What came out, and where it lies."""

    sweep: Sweep
    folder: Path
    page: Path
    points: list[PointResult]
    """Those with ended runs, the best first; each once, however often it was chosen."""
    runs: int
    """Runs that were asked for."""
    reused: int
    """Runs that had ended before."""
    failed: list[str]
    """Runs that an engine could not finish, each with what went wrong."""
    problems: list[str]
    """What is wrong with folders of runs."""

    @property
    def best(self) -> PointResult | None:
        """The best point; None: there is none of which all seeds have ended and stayed finite."""
        return self.points[0] if self.points and self.points[0].value is not None else None

    def table(self) -> list[dict[str, Any]]:
        """A row for each point: what varies, the objective, over how many seeds, and the best of its runs."""
        return [self._row(point) for point in self.points]

    def _row(self, point: PointResult) -> dict[str, Any]:
        own = [run for run in point.runs if run.value is not None]
        values = [run.value for run in own if run.value is not None]
        row = {**point.values, self.sweep.objective: point.value}
        if len(self.sweep.seeds) > 1:
            row |= {"lowest": min(values, default=None), "highest": max(values, default=None)}
            row["seeds"] = f"{len(point.runs)} of {len(self.sweep.seeds)}"
        if any(each.diverged for each in self.points):
            row["diverged"] = point.diverged
        best = best_run(own, self.sweep)
        return {**row, "run": (best or point.runs[0]).hash}

    def as_json(self) -> dict[str, Any]:
        """All of it, for programs."""
        best = self.best
        run = None if best is None else best_run(best.runs, self.sweep)
        return {
            "sweep": self.sweep.base.name,
            "folder": str(self.folder),
            "page": str(self.page),
            **self.sweep.as_json(),
            "best": None
            if best is None or run is None
            else {"values": dict(best.values), "value": best.value, "folder": str(self.folder / run.hash)},
            "points": [
                {
                    "number": point.number,
                    "values": dict(point.values),
                    "value": point.value,
                    "runs": [{"seed": run.seed, "folder": str(self.folder / run.hash), **run.reported}
                             for run in point.runs],
                }
                for point in self.points
            ],
            "runs": self.runs,
            "reused": self.reused,
            "failed": self.failed,
            "problems": self.problems,
        }  # fmt: skip


def read_ended(path: Path) -> dict[str, Any]:
    """What the `trial.json` of a run says that it reports."""
    content = read_json(path).get("result")
    if not isinstance(content, dict):
        raise ValueError(
            f"{path} should hold what a run reports, but does not: it was edited, or written by another version of "
            f"mnemoscope. Remove it, and the run is looked up again by --resume."
        )
    return content


def point_result(sweep: Sweep, point: Point, folder: Path) -> PointResult:
    """The runs of a point that have ended."""
    runs = []
    for seed in sweep.seeds:
        name = sweep.config(point, seed).hash
        if (folder / name / TRIAL).exists():
            reported = read_ended(folder / name / TRIAL)
            runs.append(EndedRun(seed, name, value_of(reported, sweep.objective), reported))
    return PointResult(point.number, point.values, runs, len(sweep.seeds))


def value_of(reported: Mapping[str, Any], objective: str) -> float | None:
    """The objective among what a run reports."""
    if "diverged" in reported:
        return None
    numbers = {name: value for name, value in reported.items() if type(value) in (int, float)}
    if objective not in numbers:
        raise ValueError(
            f"The runs report no {objective!r}. There are {', '.join(numbers)}: choose one by --objective."
        )
    return float(numbers[objective]) if isfinite(numbers[objective]) else None


def best_first(points: Sequence[PointResult], sweep: Sweep) -> list[PointResult]:
    """Each point once, sorted; those without a value come last."""
    once = {tuple(run.hash for run in point.runs): point for point in reversed(points) if point.runs}
    return sorted(once.values(), key=lambda point: (*_order(point.value, sweep), point.number))


def best_run(runs: Sequence[EndedRun], sweep: Sweep) -> EndedRun | None:
    """The best of some runs."""
    finite = [run for run in runs if run.value is not None]
    return min(finite, key=lambda run: _order(run.value, sweep), default=None)


def _order(value: float | None, sweep: Sweep) -> tuple[bool, float]:
    return (True, 0.0) if value is None else (False, value if sweep.sought == "minimise" else -value)
