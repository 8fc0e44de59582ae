"""The table of all runs below a folder, one plain dict per run, with a note on files that are missing or damaged.

`training/run_folder.py` writes these folders, one run at a time, and loads their networks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from mnemoscope import registry
from mnemoscope.base.reading import checked_json, read_end, read_json, read_toml
from mnemoscope.base.safetensors_header import read_safetensors_header
from mnemoscope.base.version import __version__
from mnemoscope.config.run_config import RunConfig
from mnemoscope.config.toml_format import with_tuples
from mnemoscope.store.schemas import LINE_LIMIT, Environment, MetricsLine, RunResult, TrialFile
from mnemoscope.store.selection import differing_columns

Run = dict[str, Any]
"""Columns of a run, by name."""

RUN_FILES = {"config.toml", "metrics.jsonl", "checkpoint.safetensors", "model.safetensors"}
"""A folder with one of these files is the folder of a run, complete or not."""
_FIRST = ("name", "study", "preset", "status")
_THEN = ("steps", "loss", "baseline")
_LAST = ("seconds", "stopped", "version", "problem", "folder")
_FIXED = (*_FIRST, *_THEN, *_LAST)
"""Columns of every run. Settings come between the first two groups, scores between the last two."""
NOT_SCORES = {"step", "learning_rate", "train_loss", "gradient_norm", "left_out", "stage", "loss"}
"""Entries of a line of metrics.jsonl that are no scores."""


def read_runs(root: str | Path = "runs") -> list[Run]:
    """Return every run below `root`, including the trials of studies, sorted by folder.

    All dicts have the same keys, in this order. An unknown value is None. The loss and the scores of an unfinished run
    are those of its last evaluation.

    - `name`, `study`, `preset`;
    - `status`: "finished", "unfinished", or "broken" if files cannot be read;
    - the settings of config.toml, with options such as `task_options.delay`, and the number of steps to train as
      `config.steps`;
    - `steps` (trained so far), `loss`, `baseline`, and the scores by name;
    - `seconds`, `stopped`, `version` (of mnemoscope when the run began), `problem` (with the folder), `folder`.
    """
    root = Path(root)
    if not root.is_dir():
        raise FileNotFoundError(f"There is no folder {root}; the root of the runs was expected.")
    runs = [_read(folder) for folder in _folders(root)]
    settings, scores = (
        dict.fromkeys(column for run in runs for column in run[kind]) for kind in ("settings", "scores")
    )
    columns = [*_FIRST, *(column for column in settings if column not in _FIRST), *_THEN, *scores, *_LAST]
    flat = [run["settings"] | run["scores"] | run for run in runs]
    return [{column: run.get(column) for column in columns} for run in flat]


def informative_columns(runs: Sequence[Run]) -> list[str]:
    """Return the columns worth showing: the settings in which the runs differ, and the results."""
    if not runs:
        return []
    columns = list(runs[0])
    settings = columns[len(_FIRST) : columns.index("steps")]
    omitted = {*settings} - {*differing_columns(runs, settings)} | {"baseline", "stopped", "version", "problem"}
    return [column for column in columns if column not in omitted and any(run[column] is not None for run in runs)]


def _folders(root: Path) -> Iterator[Path]:
    """Yield the folders of runs below `root`, sorted."""
    for folder, subfolders, names in os.walk(root):
        subfolders.sort()
        if RUN_FILES & {*names}:
            subfolders.clear()  # a run contains no other run
            yield Path(folder)


def _read(folder: Path) -> Run:
    """Read one run; everything that is wrong with its files becomes its `problem`."""
    problems: list[str] = []
    names = {path.name for path in folder.iterdir()}
    version = _version(folder, names, problems)
    newer = "" if version is None else newer_version_note(version)
    if newer:
        problems.append(newer)
    settings = _settings(folder, names, bool(newer), problems)
    finished = {"result.json", "model.safetensors"} <= names
    if "result.json" in names and not finished:
        problems.append("result.json exists, but model.safetensors is missing")
    result = _result(folder, problems) if finished else _last_evaluation(folder, names, problems)
    _check_tensors(folder, names & {"model.safetensors" if finished else "checkpoint.safetensors"}, problems)
    is_broken = settings is None or result is None
    outcome, scores = result or ({}, {})
    return {
        "settings": _columns(settings or {}),
        "scores": _scores(scores),
        **_study_of(folder),
        **outcome,
        "status": "broken" if is_broken else "finished" if finished else "unfinished",
        "version": version,
        "problem": "; ".join(problems) or None,
        "folder": folder.as_posix(),
    }


def _study_of(folder: Path) -> dict[str, str]:
    """Return the study and the preset of a run, which are names of its parent folders."""
    parts = folder.resolve().parts
    for index, part in enumerate(parts[:-3]):
        if part == "studies" and parts[index + 1] in registry.studies:
            return {"study": parts[index + 1], "preset": parts[index + 2]}
    return {}


def _version(folder: Path, names: set[str], problems: list[str]) -> str | None:
    """Return the version of mnemoscope that began a run; None: unknown."""
    if "env.json" not in names:
        problems.append("env.json is missing")
        return None
    return (_read_json(folder / "env.json", Environment, problems) or {}).get("mnemoscope")


def newer_version_note(version: str) -> str:
    """Return a note on a file that a newer version of mnemoscope has written; "" for any other version."""
    if _numbers(version) <= _numbers(__version__):
        return ""
    return f"written by mnemoscope {version[:20]}, which is newer than this one, {__version__}"


def _numbers(version: str) -> list[int]:
    """Return the numbers of a version, which compare as versions do.

    >>> _numbers("0.10.1") > _numbers("0.9")
    True
    """
    return [int(part) for part in re.findall(r"\d{1,9}", version)[:3]]


def _settings(folder: Path, names: set[str], is_newer: bool, problems: list[str]) -> Mapping[str, Any] | None:
    """Return the settings of a run; None if they cannot be read."""
    if "config.toml" not in names:  # an agent in a trial of a study has none: its settings are in the trial
        trial = folder.parent / "trial.json"
        if trial.exists():
            content = (_read_json(trial, TrialFile, problems) or {}).get("trial")
            return content and {"name": content["name"], **content["settings"], "seed": content["seed"]}
        problems.append("config.toml is missing, so that the settings are unknown")
        return {}
    try:
        content = read_toml(folder / "config.toml")
    except (ValueError, OSError) as error:
        problems.append(f"config.toml cannot be read: {_without_folder(error, folder / 'config.toml')}")
        return None
    if not is_newer:
        try:
            RunConfig(**with_tuples(content))
        except (ValueError, TypeError) as error:
            problems.append(f"config.toml is not as this version writes it: {str(error).partition(' There are ')[0]}")
    defaults = {
        setting.name: None if setting.default is MISSING else setting.default
        for setting in fields(RunConfig)
        if setting.default_factory is MISSING
    }
    return {**defaults, **content}


def _columns(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by column: a table becomes one column per key."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        column = f"config.{name}" if name in _FIXED and name not in _FIRST else name
        if isinstance(value, Mapping):
            flat |= {f"{column}.{key}": option for key, option in value.items()}
        else:
            flat[column] = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
    return flat


def _result(folder: Path, problems: list[str]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the outcome of a finished run and its scores; None if they cannot be read."""
    content = _read_json(folder / "result.json", RunResult, problems)
    if content is None:
        return None
    outcome = {name: content.get(name) for name in ("steps", "loss", "baseline", "seconds", "stopped")}
    return outcome, content.get("scores", {})


def _last_evaluation(
    folder: Path, names: set[str], problems: list[str]
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the last evaluation of an unfinished run, in the form of `_result`.

    A crash may have truncated the last line, which `--resume` removes: the line before it counts.
    """
    if "metrics.jsonl" not in names:
        return {}, {}
    path = folder / "metrics.jsonl"
    try:
        complete = [line for line in read_end(path, LINE_LIMIT).split(b"\n")[:-1] if line]
        line = checked_json(complete[-1], "The last line", MetricsLine) if complete else {}
    except (ValueError, OSError) as error:
        problems.append(f"metrics.jsonl cannot be read: {_without_folder(error, path)}")
        return None
    scores = {name: value for name, value in line.items() if name not in NOT_SCORES}
    return {"steps": line.get("step"), "loss": line.get("loss")}, scores


def _scores(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores by column; a score with the name of another column gets a prefix."""
    taken = {*_FIXED, *(setting.name for setting in fields(RunConfig))}
    return {f"score.{name}" if name in taken else name: value for name, value in scores.items()}


def _check_tensors(folder: Path, names: set[str], problems: list[str]) -> None:
    """Report safetensors files whose headers are damaged, or that are shorter than their headers say."""
    for name in names:
        try:
            read_safetensors_header(folder / name)
        except (ValueError, OSError) as error:
            problems.append(_without_folder(error, folder / name))


def _read_json(path: Path, schema: Any, problems: list[str]) -> Any:
    """Read a JSON file that has a schema; on failure report the problem and return None."""
    try:
        return read_json(path, schema)
    except (ValueError, OSError) as error:
        problems.append(_without_folder(error, path))
        return None


def _without_folder(error: Exception, path: Path) -> str:
    """Return the message of an error, with only the name of the file: the folder is in the table."""
    return str(error).replace(str(path), path.name)
