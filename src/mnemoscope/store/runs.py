"""The run store read back: every run folder below a root as a plain dict."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from mnemoscope import registry
from mnemoscope.base.files import read_json
from mnemoscope.base.version import __version__
from mnemoscope.config.run_config import RunConfig
from mnemoscope.config.toml_format import with_tuples
from mnemoscope.store.selecting import differing

Run = dict[str, Any]

SIGNS = {"config.toml", "metrics.jsonl", "checkpoint.safetensors", "model.safetensors"}
"""A folder with one of these is the folder of a run, whole or not."""
_FIRST = ("name", "study", "preset", "status")
_THEN = ("steps", "loss", "baseline")
_LAST = ("seconds", "stopped", "version", "problem", "folder")
_BESIDE = (*_FIRST, *_THEN, *_LAST)
"""Columns that every run has; settings stand before the steps, scores after the baseline."""
_NOT_SCORES = {"step", "learning_rate", "train_loss", "gradient_norm", "left_out", "stage", "loss"}
"""What else a line of metrics.jsonl holds."""


def read_runs(root: str | Path = "runs") -> list[Run]:
    """Every run below `root`, also those of studies and of their trials, in the order of their folders.

    All dicts have the same keys. `name`, `study`, `preset` and `status`, which is "finished", "unfinished", or "broken"
    where its files cannot be read; the settings of config.toml, options as `task_options.delay`, and the steps asked
    for as `config.steps`; `steps`, `loss`, `baseline` and the scores by their names; `seconds`, `stopped`,
    `version` (of mnemoscope, when it began), `problem` (what is wrong with the folder) and `folder`. Of an unfinished
    run, loss and scores are those of its last evaluation. What is not known is None.
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


def telling_columns(runs: Sequence[Run]) -> list[str]:
    """The columns worth a look: in which settings the runs differ, and how they went."""
    if not runs:
        return []
    columns = list(runs[0])
    settings = columns[len(_FIRST) : columns.index("steps")]
    dull = {*settings} - {*differing(runs, settings)} | {"baseline", "stopped", "version", "problem"}
    return [column for column in columns if column not in dull and any(run[column] is not None for run in runs)]


def _folders(root: Path) -> Iterator[Path]:
    for at, below, names in os.walk(root):
        below.sort()
        if SIGNS & {*names}:
            below.clear()  # a run holds no other
            yield Path(at)


def _read(folder: Path) -> Run:
    """One run; whatever is wrong with it becomes its `problem`."""
    problems: list[str] = []
    names = {each.name for each in folder.iterdir()}
    version = _version(folder, names, problems)
    newer = "" if version is None else newer_than_this(version)
    if newer:
        problems.append(newer)
    settings = _settings(folder, names, bool(newer), problems)
    finished = {"result.json", "model.safetensors"} <= names
    if "result.json" in names and not finished:
        problems.append("result.json is there, but model.safetensors is missing")
    result = _result(folder, problems) if finished else _last_evaluation(folder, names, problems)
    _check_tensors(folder, names & {"model.safetensors" if finished else "checkpoint.safetensors"}, problems)
    is_broken = settings is None or result is None
    known, scores = result or ({}, {})
    return {
        "settings": _columns(settings or {}),
        "scores": _scores(scores),
        **_place(folder),
        **known,
        "status": "broken" if is_broken else "finished" if finished else "unfinished",
        "version": version,
        "problem": "; ".join(problems) or None,
        "folder": folder.as_posix(),
    }


def _place(folder: Path) -> dict[str, str]:
    """The study and the preset that a run belongs to, by the names of its folders."""
    parts = folder.resolve().parts
    for at, part in enumerate(parts[:-3]):
        if part == "studies" and parts[at + 1] in registry.studies:
            return {"study": parts[at + 1], "preset": parts[at + 2]}
    return {}


def _version(folder: Path, names: set[str], problems: list[str]) -> str | None:
    if "env.json" not in names:
        problems.append("env.json is missing")
        return None
    content = _read_json(folder / "env.json", problems)
    version = (content or {}).get("mnemoscope")
    return version if isinstance(version, str) else None


def newer_than_this(version: str) -> str:
    """What is to be said of something written by a newer version of mnemoscope; of others nothing."""
    if _numbers(version) <= _numbers(__version__):
        return ""
    return f"written by mnemoscope {version}, which is newer than this one, {__version__}"


def _numbers(version: str) -> list[int]:
    """A version such that it can be compared.

    >>> _numbers("0.10.1") > _numbers("0.9")
    True
    """
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


def _settings(folder: Path, names: set[str], is_newer: bool, problems: list[str]) -> Mapping[str, Any] | None:
    """What was asked for; None where it cannot be read."""
    if "config.toml" not in names:  # an agent that learns in the trial of a study has none: the trial knows
        trial = folder.parent / "trial.json"
        if trial.is_file():
            content = (_read_json(trial, problems) or {}).get("trial", {})
            return {"name": content.get("name"), **content.get("settings", {}), "seed": content.get("seed")}
        problems.append("config.toml is missing, so that what was asked for is not known")
        return {}
    try:
        content = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        problems.append(f"config.toml cannot be read: {error}")
        return None
    if not is_newer:
        try:
            RunConfig(**with_tuples(content))
        except (ValueError, TypeError) as error:
            problems.append(f"config.toml is not as this version writes it: {str(error).partition(' There are ')[0]}")
    defaults = {
        each.name: None if each.default is MISSING else each.default
        for each in fields(RunConfig)
        if each.default_factory is MISSING
    }
    return {**defaults, **content}


def _columns(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by the names of their columns: tables become one column for each of their keys."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        column = f"config.{name}" if name in _BESIDE and name not in _FIRST else name
        if isinstance(value, Mapping):
            flat |= {f"{column}.{key}": each for key, each in value.items()}
        else:
            flat[column] = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
    return flat


def _result(folder: Path, problems: list[str]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """How a finished run went, and its scores; None where that cannot be read."""
    content = _read_json(folder / "result.json", problems)
    if content is None:
        return None
    scores = content.get("scores")
    known = {name: content.get(name) for name in ("steps", "loss", "baseline", "seconds", "stopped")}
    return known, scores if isinstance(scores, dict) else {}


def _last_evaluation(
    folder: Path, names: set[str], problems: list[str]
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Of an unfinished run. A crash may have cut its last line, which `--resume` takes back: then the one before."""
    if "metrics.jsonl" not in names:
        return {}, {}
    try:
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").split("\n")
        whole = [line for line in lines[:-1] if line]
        line = json.loads(whole[-1]) if whole else {}
    except (ValueError, OSError) as error:
        problems.append(f"metrics.jsonl cannot be read: {error}")
        return None
    if not isinstance(line, dict):
        problems.append("metrics.jsonl does not hold a JSON object in every line")
        return None
    scores = {name: value for name, value in line.items() if name not in _NOT_SCORES}
    return {"steps": line.get("step"), "loss": line.get("loss")}, scores


def _scores(scores: Mapping[str, Any]) -> dict[str, Any]:
    taken = {*_BESIDE, *(each.name for each in fields(RunConfig))}
    return {f"score.{name}" if name in taken else name: value for name, value in scores.items()}


def _check_tensors(folder: Path, names: set[str], problems: list[str]) -> None:
    """Whether safetensors files are whole, by what their headers say."""
    for name in names:
        path = folder / name
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            try:
                header = json.loads(file.read(size)) if size < path.stat().st_size else None
                ends = [each["data_offsets"][1] for key, each in (header or {}).items() if key != "__metadata__"]
            except (ValueError, KeyError, TypeError, AttributeError):
                header, ends = None, []
        if header is None or path.stat().st_size != 8 + size + max(ends, default=0):
            problems.append(f"{name} is cut short")


def _read_json(path: Path, problems: list[str]) -> dict[str, Any] | None:
    try:
        return read_json(path)
    except (ValueError, OSError) as error:
        problems.append(str(error).replace(str(path), path.name))
        return None
