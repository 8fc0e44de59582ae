"""Results of studies read back, and told again from their trials by the code of today."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemoscope import registry
from mnemoscope.base.files import read_json, write_json
from mnemoscope.replication.page import render_study
from mnemoscope.replication.study import Finished, Row, Study, Trial
from mnemoscope.replication.trial_files import (
    command_of,
    finished_trials,
    missing_trials,
    of_the_preset,
    preset_of,
    summary,
    written_by_newer,
)
from mnemoscope.store import StoredResults, find_study_results


@dataclass(frozen=True)
class Told:
    """What the trials of one preset tell."""

    study: Study
    preset: str
    rows: list[Row]
    command: str
    of_preset: tuple[int, int]
    """How many of the preset's own trials are finished, and how many it has."""
    finished: Sequence[Finished]
    """With other seeds or settings too."""
    path: Path
    """The file or the page that holds more."""


def read_told(results: str | Path | None, root: str | Path | None) -> tuple[list[Told], list[str]]:
    """What `<root>/studies` and the files `<results>/<study>.<preset>.json` tell, and which cannot be told, and why."""
    told, problems = [], []
    for held in [*find_study_results(None, root), *find_study_results(results, None)]:
        if held.study not in registry.studies:
            problems.append(f"{held.path} is of {held.study!r}, which is no study of this version.")
            continue
        if held.trials == 0 and held.problem is None:
            continue
        try:
            told.append(_told(held))
        except (ValueError, LookupError, TypeError, OSError) as error:
            problems.append(f"{held.path} cannot be told by this version: {held.problem or _words(error)}")
    return told, problems


def retell(results: str | Path) -> None:
    """Write every file of results again, as the studies of today tell its trials. What was measured stays."""
    for held in find_study_results(results):
        content = read_json(held.path)
        study: Study = registry.studies.load(held.study)
        try:
            finished, environments = _finished(content), content["environments"]
            if newer := next(filter(None, map(written_by_newer, environments)), ""):
                raise ValueError(f"{held.path} was {newer}: nothing was written. Use that version.")
            told = summary(study, held.preset, finished, study.summarise(finished), environments)
        except (LookupError, TypeError) as error:
            raise ValueError(f"{held.path} was written by another version of mnemoscope: {_words(error)}.") from error
        write_json(held.path, told)


def write_pages(told: Sequence[Told], folder: str | Path) -> list[Path]:
    """Write a page of each, `<study>.<preset>.html`, as a study writes one beside its trials."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pages = []
    for one in told:
        preset = preset_of(one.study, one.preset)
        missing = missing_trials(one.study, preset, one.finished)
        pages.append(folder / f"{one.study.name}.{one.preset}.html")
        text = render_study(one.study, preset, folder, one.finished, one.rows, one.command, missing)
        pages[-1].write_text(text, encoding="utf-8")
    return pages


def _told(held: StoredResults) -> Told:
    study: Study = registry.studies.load(held.study)
    preset = preset_of(study, held.preset)
    if held.path.is_file():
        finished, path = _finished(read_json(held.path)), held.path
    else:
        page = held.path / "page.html"
        finished, path = finished_trials(study, preset, held.path), page if page.exists() else held.path
    if not finished:
        raise ValueError(f"none of its trials is one of the preset {held.preset!r} any more")
    counted = of_the_preset(study, preset, finished)
    return Told(study, held.preset, study.summarise(finished), command_of(study, held.preset, finished),
                (counted["finished"], counted["trials"]), finished, path)  # fmt: skip


def _finished(content: Mapping[str, Any]) -> list[Finished]:
    return [Finished(Trial(**one["trial"]), one["result"]) for one in content["trials"]]


def _words(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
