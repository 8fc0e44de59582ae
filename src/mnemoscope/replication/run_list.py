"""The run list: planned trials of studies, in the order of their priority."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

from mnemoscope import registry
from mnemoscope.base.reading import read_toml
from mnemoscope.base.schema import checked
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.replication.claims import Subject
from mnemoscope.replication.study import Study, Trial
from mnemoscope.replication.trial_files import preset_of

FILE = "run_list.toml"
"""File of the run list in the folder of results."""
HEADER = "run"
"""Name of the tables of a run list, `[[run]]`."""
OPTIONAL = {"trials": [], "seeds": [], "out_of_reach": ""}
"""Values of the fields that an entry may lack."""


class Entry(TypedDict):
    """The fields of a table of the run list, which are described in `PlannedRun`."""

    study: str
    preset: str
    trials: list[str]
    seeds: list[int]
    seconds: float
    why: str
    out_of_reach: str


@dataclass(frozen=True)
class PlannedRun:
    """Trials of one preset of a study, with one or several seeds."""

    study: Study
    preset: str
    trials: tuple[Trial, ...]
    """The trials, without those of an earlier entry."""
    seeds: tuple[int, ...]
    seconds: float
    """Estimated device time of one trial."""
    why: str
    """Which rows of the scoreboard the trials decide."""
    out_of_reach: str = ""
    """Why the trials were not run, if nobody plans to run them; the scoreboard says it after their device time."""
    seconds_before: float = 0.0
    """Estimated device time of the trials of earlier entries that are not done, if it is known."""

    @cached_property
    def subjects(self) -> frozenset[Subject]:
        """Subjects of the trials."""
        return frozenset(trial.subject for trial in self.trials)


def read_run_list(path: str | Path, studies: Sequence[str] = ()) -> list[PlannedRun]:
    """Read a run list, a TOML file with a table `[[run]]` for each entry; raise on an unknown study, preset or trial.

    Args:
        path: the file.
        studies: only the entries of these studies; empty: all.

    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no run list {path}. Name one with --list.")
    content = read_toml(path)
    entries = content.get(HEADER, [])
    if content.keys() != {HEADER} or not isinstance(entries, list):
        raise ValueError(f"{path} must consist of tables [[{HEADER}]], one for each entry.")
    planned: list[PlannedRun] = []
    seen: set[tuple[str, str, str]] = set()
    for number, fields in enumerate(entries):
        try:
            each = _planned(fields)
        except (ValueError, LookupError) as error:
            raise ValueError(f"{path}, entry {number + 1}: {error.args[0]}") from error
        keys = {trial.hash: (each.study.name, each.preset, trial.hash) for trial in each.trials}
        planned.append(replace(each, trials=tuple(trial for trial in each.trials if keys[trial.hash] not in seen)))
        seen |= {*keys.values()}
    listed = list(dict.fromkeys(each.study.name for each in planned))
    for name in studies:
        if name not in listed:
            hint = did_you_mean(name, listed)
            raise ValueError(f"{path} has no entry of the study {name!r}.{hint} It has {', '.join(listed)}.")
    return [each for each in planned if not studies or each.study.name in studies]


def _planned(fields: dict[str, Any]) -> PlannedRun:
    """Return an entry: the trials that are named first come first, each with all its seeds."""
    entry: Entry = checked({**OPTIONAL, **fields}, Entry)
    if unknown := sorted(fields.keys() - Entry.__annotations__.keys()):
        known = ", ".join(Entry.__annotations__)
        raise ValueError(f"{unknown[0]!r} is no field of an entry. There are {known}.")
    study: Study = registry.studies.load(entry["study"])
    preset = preset_of(study, entry["preset"])
    seeds = tuple(dict.fromkeys(entry["seeds"])) or preset.seeds
    trials = study.trials_of(entry["preset"], seeds)
    known = list(dict.fromkeys(trial.name for trial in trials))
    for name in entry["trials"]:
        if name not in known:
            raise ValueError(
                f"The preset {entry['preset']!r} of the study {study.name!r} has no trial {name!r}."
                f"{did_you_mean(name, known)} Its trials: {'; '.join(known)}."
            )
    chosen = [trial for name in dict.fromkeys(entry["trials"] or known) for trial in trials if trial.name == name]
    texts = entry["why"], entry["out_of_reach"]
    return PlannedRun(study, entry["preset"], tuple(chosen), seeds, float(entry["seconds"]), *texts)
