"""The types of the files of runs, studies and sweeps, which every reader checks. Keys not named here are free."""

from __future__ import annotations

from typing import Any, TypedDict

METRICS_LIMIT = 1 << 28
"""Largest metrics.jsonl or journal of Optuna that is read, in bytes; a line per evaluation has some hundred."""
LINE_LIMIT = 1 << 20
"""Largest line of metrics.jsonl in the table of runs, in bytes."""

Number = float | None


class Environment(TypedDict, total=False):
    """env.json, and the environment of a trial."""

    mnemoscope: str
    plugins: list[str]


class RunResult(TypedDict, total=False):
    """result.json. That of an agent has only steps and seconds."""

    steps: int
    loss: float
    baseline: float
    seconds: float
    stopped: str
    scores: dict[str, Number]


MetricsLine = dict[str, Number]
"""A line of metrics.jsonl: step, loss and scores."""


class StoredTrial(TypedDict):
    """A trial of a study, in trial.json and in the results of the study."""

    name: str
    settings: dict[str, Any]
    seed: int


class FinishedTrial(TypedDict):
    """A trial of a study and its measurements."""

    trial: StoredTrial
    result: dict[str, Any]


class SummaryTrial(FinishedTrial, total=False):
    """A finished trial in the results of a study; its environment is a position in their environments."""

    environment: int


class TrialFile(FinishedTrial, total=False):
    """trial.json of a study."""

    environment: Environment


class SweepTrialFile(TypedDict):
    """trial.json of a sweep, whose folder has the settings."""

    result: dict[str, Any]


class ArenaSizes(TypedDict):
    """Sizes of the network of an arena's run."""

    parameters: int
    state: int


class ArenaRunResult(ArenaSizes, total=False):
    """The measurements of an arena's run; one that did not stay finite has only `diverged` besides its sizes."""

    diverged: str
    accuracy: float
    loss: float
    steps: int
    seconds: float
    joules: Number
    longer: list[float]
    curve: list[float]


class ArenaTrialFile(TypedDict):
    """trial.json of an arena; config.toml has the settings."""

    result: ArenaRunResult


class PresetCounts(TypedDict):
    """Number of finished trials of a preset, and of all its trials."""

    finished: int
    trials: int


_OptionalSummary = TypedDict(
    "_OptionalSummary",
    {
        "study": str,
        "preset": str,
        "command": str,
        "of the preset": PresetCounts,
        "environments": list[Environment],
        "not run": list[str],
    },
    total=False,
)


class Summary(_OptionalSummary):
    """summary.json of a study; a file of results is a copy of one."""

    trials: list[SummaryTrial]


class SweepFile(TypedDict, total=False):
    """sweep.json."""

    mnemoscope: str
    method: str
