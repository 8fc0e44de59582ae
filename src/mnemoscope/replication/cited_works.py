"""The works that a configuration, a run or a study cites: the code behind `mnemoscope cite`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from mnemoscope import registry
from mnemoscope.base.reading import read_json
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection.uses import uses_of_config, uses_of_run
from mnemoscope.registry.citations import Use, cited
from mnemoscope.replication.study import Study, Trial
from mnemoscope.replication.trial_files import preset_of, read_trial
from mnemoscope.store import RUN_FILES
from mnemoscope.store.schemas import Summary, SweepFile

Cited = dict[str, list[str]]
"""BibTeX keys, each with the names of what it is cited for."""


def cited_by_study(
    study: Study, preset: str | None = None, trials: Iterable[Trial] | None = None, seen: set[str] | None = None
) -> Cited:
    """Return the works that a study cites: those of its sources, its lenses and the parts of its trials.

    The trials are those given, else those of one preset, else those of all presets. Networks in `seen` are not built
    again.
    """
    if trials is None:
        names = study.presets if preset is None else [preset]
        trials = [trial for name in names for trial in study.trials_of(name, preset_of(study, name).seeds[:1])]
    study_use, seen = Use("study", study.name), set() if seen is None else seen
    uses = [study_use, *(Use("lens", name) for name in study.lenses)]
    for trial in trials:
        uses += _uses_of_settings(dict(trial.settings), seen)
    works = dict.fromkeys([*study.cites, *(claim.source.work for claim in study.claims)])
    return merged([cited(uses), {key: [str(study_use)] for key in works}])


def cited_by_path(path: Path, problems: list[str] | None = None) -> Cited:
    """Return the works that a file or a folder cites.

    The path is a `.toml`, the results of a study, a run or a trial, or a folder that holds any number of these. In a
    folder, what cannot be read is added to `problems`, unless nothing can be read.
    """
    if path.suffix == ".toml":
        return cited(uses_of_config(RunConfig.from_toml(path)))
    if path.suffix == ".json" and path.is_file():
        return _cited_by_results(path)
    if not path.is_dir():
        raise ValueError(f"{path} is neither a folder, nor the .toml of a run, nor the .json of a study's results.")
    unreadable: list[str] = []
    found = list(_cited_below(path, unreadable))
    if not found:
        raise ValueError("\n".join(unreadable) or f"{path} holds no run, and no trial of a study.")
    if problems is not None:
        problems += unreadable
    return merged(found)


def merged(parts: Iterable[Cited]) -> Cited:
    """Merge tables of cited works.

    >>> merged([{"a": ["task copy"]}, {"b": ["cell gru"], "a": ["cell gru", "task copy"]}])
    {'a': ['task copy', 'cell gru'], 'b': ['cell gru']}
    """
    found: Cited = {}
    for part in parts:
        for key, uses in part.items():
            found[key] = list(dict.fromkeys([*found.get(key, []), *uses]))
    return found


def _cited_below(path: Path, problems: list[str]) -> Iterator[Cited]:
    """Yield what each study, sweep and run in a folder cites; what cannot be read is added to `problems`."""
    networks = dict[str, set[str]]()  # by study: networks that were built
    for folder, below, names in os.walk(path):
        below.sort()
        here = Path(folder)
        try:
            if "sweep.json" in names:
                yield cited([Use("search", _search_method(here / "sweep.json"))])
            if "trial.json" in names and "config.toml" not in names:  # a run with a trial.json belongs to a sweep
                below.clear()  # the settings determine the runs
                study = here.resolve().parent.parent.name
                trial = _trial(read_trial(here / "trial.json")["trial"])
                yield cited_by_study(_study(study, path), trials=[trial], seen=networks.setdefault(study, set()))
            elif RUN_FILES & {*names}:
                below.clear()
                yield cited(uses_of_run(folder))
        except (ValueError, LookupError, OSError, TypeError, RuntimeError, ArithmeticError) as error:
            text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            problems.append(text if str(here) in text else f"{here}: {text}")


def _search_method(path: Path) -> str:
    method = read_json(path, SweepFile).get("method", "")
    if method not in registry.REGISTRIES["search"]:
        raise ValueError(f"{path} names the search method {method!r}, which is none of this version.")
    return method


def _cited_by_results(path: Path) -> Cited:
    if not {"study", "trials"} <= read_json(path).keys():
        raise ValueError(f"{path} holds no results of a study: `study` and `trials` were expected in it.")
    content = read_json(path, Summary)
    return cited_by_study(_study(content["study"], path), trials=[_trial(each["trial"]) for each in content["trials"]])


def _trial(content: Mapping[str, Any]) -> Trial:
    return Trial(content["name"], content["settings"], content["seed"])


def _study(name: str, path: Path) -> Study:
    if name not in registry.studies:
        raise ValueError(f"{path} holds trials of {name!r}, which is no study of this version. {registry.HINT}")
    return registry.studies.load(name)


def _uses_of_settings(settings: dict[str, Any], seen: set[str]) -> Iterator[Use]:
    """Yield the uses of a trial's configuration; for other trials, the cell and the task that they name.

    Networks whose options are in `seen` are not built again.
    """
    if "task" in settings and {*settings} <= {field.name for field in fields(RunConfig)}:
        config = RunConfig(**settings)
        network = repr((config.cell, config.cell_options, registry.is_relational(config.task)))
        yield Use("task", config.task)
        yield Use("optimiser", config.optimiser)
        if network not in seen:
            seen.add(network)
            yield from uses_of_config(config)
        return
    for kind in ("cell", "task"):
        if settings.get(kind, "") in registry.REGISTRIES[kind]:
            yield Use(kind, settings[kind])
