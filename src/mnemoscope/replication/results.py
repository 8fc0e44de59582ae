"""Results of studies, read from disk and summarised again by the current code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mnemoscope import registry
from mnemoscope.base.files import write_json, write_output
from mnemoscope.base.reading import read_json
from mnemoscope.replication.claims import Row, Subject
from mnemoscope.replication.page import render_study
from mnemoscope.replication.study import Finished, Study, Trial
from mnemoscope.replication.trial_files import (
    changed_trials,
    command_of,
    finished_trials,
    preset_progress,
    summary_of,
    written_by_newer,
)
from mnemoscope.store import StoredResults, find_study_results
from mnemoscope.store.schemas import Summary


@dataclass(frozen=True)
class PresetResults:
    """Results of the finished trials of one preset of a study."""

    study: Study
    preset: str
    rows: list[Row]
    command: str
    of_preset: tuple[int, int]
    """Number of finished trials among those of the preset, and number of trials of the preset."""
    finished: Sequence[Finished]
    """All finished trials, including those with other seeds or settings."""
    path: Path
    """The file or the page with the details."""
    changed: Sequence[Finished] = ()
    """Finished trials whose settings the preset does not have any more, so that its command would not repeat them."""


def read_results(results: str | Path | None, root: str | Path | None) -> tuple[list[PresetResults], list[str]]:
    """Read `<root>/studies` and the files `<results>/<study>.<preset>.json`; return the results and the problems."""
    found, problems = [], []
    subjects_of = cache(Study.subjects)  # a study has several presets
    for held in [*find_study_results(None, root), *find_study_results(results, None)]:
        if held.study not in registry.studies:
            problems.append(f"{held.path} belongs to {held.study!r}, which is no study of this version.")
            continue
        if held.trials == 0 and held.problem is None:
            continue
        try:
            found.append(_read(held, subjects_of))
        except Exception as error:  # a study may fail in any way on measurements of the wrong type
            problems.append(f"{held.path} cannot be read by this version: {held.problem or _message(error)}")
    return found, problems


def results_file(results: str | Path, study: str, preset: str) -> Path:
    """Return the file with the results of a preset."""
    return Path(results) / f"{study}.{preset}.json"


def stored_trials(path: Path, study: Study) -> list[Finished]:
    """Return the trials of a file of results."""
    return _finished(read_json(path, Summary), study.subjects())


def stored_environments(path: Path) -> list[dict[str, Any]]:
    """Return the environments of a file of results, which no newer version may have written."""
    environments = read_json(path, Summary).get("environments", [])
    if newer := next(filter(None, map(written_by_newer, environments)), ""):
        raise ValueError(f"{path} was {newer}: nothing was written. Use that version.")
    return environments


def rewrite_results(results: str | Path) -> None:
    """Rewrite every file of results with the rows of the current code; the measurements stay."""
    for held in find_study_results(results):
        content = read_json(held.path, Summary)
        study: Study = registry.studies.load(held.study)
        environments = stored_environments(held.path)
        try:
            finished = _finished(content, study.subjects())
            summary = summary_of(study, held.preset, finished, study.summarise(finished), environments)
        except Exception as error:  # a study may fail in any way on measurements of the wrong type
            message = f"{held.path} was written by another version of mnemoscope: {_message(error)}."
            raise ValueError(message) from error
        write_json(held.path, summary)


def write_pages(results: Sequence[PresetResults], folder: str | Path) -> list[Path]:
    """Write the page of each study and preset as `<study>.<preset>.html`; return the paths."""
    folder, pages = Path(folder), []
    for each in results:
        pages.append(folder / f"{each.study.name}.{each.preset}.html")
        page = render_study(each.study, each.preset, folder, each.finished, each.rows)
        write_output(pages[-1], page.encode())
    return pages


def _read(held: StoredResults, subjects_of: Callable[[Study], dict[str, Subject]]) -> PresetResults:
    study: Study = registry.studies.load(held.study)
    if held.path.is_file():
        finished, path = _finished(read_json(held.path, Summary), subjects_of(study)), held.path
    else:
        page = held.path / "page.html"
        finished, path = finished_trials(study, held.preset, held.path), page if page.exists() else held.path
    if not finished:
        raise ValueError(f"none of its trials belongs to the preset {held.preset!r} any more")
    counts = preset_progress(study, held.preset, finished)
    rows, command = study.summarise(finished), command_of(study, held.preset, finished)
    of_preset, changed = (counts["finished"], counts["trials"]), changed_trials(study, held.preset, finished)
    return PresetResults(study, held.preset, rows, command, of_preset, finished, path, changed)


def _finished(content: Mapping[str, Any], subjects: Mapping[str, Subject]) -> list[Finished]:
    """Read the trials of a file; their subjects come from the study's grid, since a file may lack them."""
    finished, environments = [], content.get("environments", [])
    for each in content["trials"]:
        name, settings, seed = (each["trial"][key] for key in ("name", "settings", "seed"))
        trial = Trial(name, settings, seed, subjects.get(name, Subject(network=name)))
        position = each.get("environment", 0 if len(environments) == 1 else None)
        known = position is not None and 0 <= position < len(environments)
        finished.append(Finished(trial, each["result"], environments[position] if known else {}))
    return finished


def _message(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
