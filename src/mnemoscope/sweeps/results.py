"""Results of a sweep: the runs of each point, one per seed, with the best point first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import mean
from typing import Any

from mnemoscope.base.reading import read_json
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.store.schemas import SweepTrialFile
from mnemoscope.sweeps.sweep import Point, Sweep
from mnemoscope.training.trial import TRIAL


@dataclass(frozen=True)
class EndedRun:
    """A run that has finished or diverged."""

    seed: int
    """Seed of the run."""
    hash: str
    """Hash of the configuration, which is the name of its folder."""
    value: float | None
    """Value of the objective; None: the run diverged."""
    report: Mapping[str, Any]
    """Everything that the run reports, by name."""


@dataclass(frozen=True)
class PointResult(Point):
    """A point of the search space and its runs."""

    runs: Sequence[EndedRun]
    """Runs that have ended, one per seed."""
    seeds: int
    """Number of seeds in the sweep."""

    @property
    def value(self) -> float | None:
        """Mean of the objective over the seeds.

        None if a run has not ended or has diverged: a mean over fewer seeds could not be compared with the others.
        """
        values = [run.value for run in self.runs if run.value is not None]
        return mean(values) if len(values) == self.seeds else None

    @property
    def diverged(self) -> int:
        """Number of runs that diverged."""
        return sum(run.value is None for run in self.runs)


@dataclass(frozen=True)
class SweepResult:
    """The results of a sweep, and the places of its files."""

    sweep: Sweep
    """The sweep that was run."""
    folder: Path
    """Folder of the runs."""
    page: Path
    """HTML page of the sweep."""
    points: list[PointResult]
    """Points with at least one ended run, the best first. A point that was chosen several times is listed once."""
    runs: int
    """Number of runs in the sweep."""
    reused: int
    """Number of runs that had ended before."""
    failed: list[str]
    """Runs that could not be finished, each with the reason."""
    problems: list[str]
    """Problems with the folders of runs."""

    @property
    def best(self) -> PointResult | None:
        """The best point; None if there is no point whose runs have all ended without diverging."""
        return self.points[0] if self.points and self.points[0].value is not None else None

    @property
    def best_folder(self) -> Path | None:
        """Folder of the best run of the best point; None if there is no best point."""
        run = best_run(self.best.runs, self.sweep) if self.best else None
        return self.folder / run.hash if run else None

    def table(self) -> list[dict[str, Any]]:
        """Return one row per point: its values, the objective, the number of seeds, and its best run."""
        return [self._row(point) for point in self.points]

    def _row(self, point: PointResult) -> dict[str, Any]:
        values = [run.value for run in point.runs if run.value is not None]
        row = {**point.values, self.sweep.objective: point.value}
        if len(self.sweep.seeds) > 1:
            row |= {"lowest": min(values, default=None), "highest": max(values, default=None)}
            row["seeds"] = f"{len(point.runs)} of {len(self.sweep.seeds)}"
        if any(other.diverged for other in self.points):
            row["diverged"] = point.diverged
        return {**row, "run": (best_run(point.runs, self.sweep) or point.runs[0]).hash}

    def as_json(self) -> dict[str, Any]:
        """Return the results as JSON data."""
        best = self.best
        return {
            "sweep": self.sweep.base.name,
            "folder": str(self.folder),
            "page": str(self.page),
            **self.sweep.as_json(),
            "best": None
            if best is None
            else {"values": dict(best.values), "value": best.value, "folder": str(self.best_folder)},
            "points": [
                {
                    "number": point.number,
                    "values": dict(point.values),
                    "value": point.value,
                    "runs": [
                        {"seed": run.seed, "folder": str(self.folder / run.hash), **run.report} for run in point.runs
                    ],
                }
                for point in self.points
            ],
            "runs": self.runs,
            "reused": self.reused,
            "failed": self.failed,
            "problems": self.problems,
        }


def read_report(path: Path) -> dict[str, Any]:
    """Return what a run reports in its `trial.json`."""
    try:
        return read_json(path, SweepTrialFile)["result"]
    except ValueError as error:
        raise ValueError(f"{error} Remove it, and --resume reads the run again.") from error


def point_result(sweep: Sweep, point: Point, folder: Path) -> PointResult:
    """Return a point with its runs that have ended."""
    runs = []
    for seed in sweep.seeds:
        name = sweep.config(point, seed).hash
        if (folder / name / TRIAL).exists():
            report = read_report(folder / name / TRIAL)
            runs.append(EndedRun(seed, name, objective_value(report, sweep.objective), report))
    return PointResult(point.number, point.values, runs, len(sweep.seeds))


def objective_value(report: Mapping[str, Any], objective: str) -> float | None:
    """Return the value of the objective in the report of a run; None: the run diverged."""
    if "diverged" in report:
        return None
    numbers = {name: value for name, value in report.items() if type(value) in (int, float)}
    if objective not in numbers:
        raise ValueError(
            f"The runs report no {objective!r}.{did_you_mean(objective, numbers)} There are {', '.join(numbers)}: "
            f"choose one with --objective."
        )
    return float(numbers[objective]) if isfinite(numbers[objective]) else None


def best_first(points: Sequence[PointResult], sweep: Sweep) -> list[PointResult]:
    """Return each point once, sorted; points without a value come last."""
    distinct = {tuple(run.hash for run in point.runs): point for point in reversed(points) if point.runs}
    return sorted(distinct.values(), key=lambda point: (*_order(point.value, sweep), point.number))


def best_run(runs: Sequence[EndedRun], sweep: Sweep) -> EndedRun | None:
    """Return the best run; None if all diverged."""
    finite = [run for run in runs if run.value is not None]
    return min(finite, key=lambda run: _order(run.value, sweep), default=None)


def _order(value: float | None, sweep: Sweep) -> tuple[bool, float]:
    """Return a sort key that puts the best value first and None last."""
    return (True, 0.0) if value is None else (False, value if sweep.goal == "minimise" else -value)
