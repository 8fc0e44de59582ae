"""The works that a configuration, a run or a study cites: the code behind `mnemoscope cite`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from mnemoscope import registry
from mnemoscope.base.files import read_json
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection.uses import uses_of_config, uses_of_run
from mnemoscope.registry.citations import Use, cited
from mnemoscope.replication.study import Study, Trial
from mnemoscope.replication.trial_files import preset_of, read_trial
from mnemoscope.store import RUN_FILES

Cited = dict[str, list[str]]
"""BibTeX keys, each with the names of what it is cited for."""


def cited_by_study(study: Study, preset: str | None = None, trials: Iterable[Trial] | None = None) -> Cited:
    """Return the works that a study cites: those of its sources, its lenses and the parts of its trials.

    The trials are those given, else those of one preset, else those of all presets.
    """
    if trials is None:
        presets = [preset_of(study, name) for name in ([preset] if preset is not None else study.presets)]
        trials = [trial for chosen in presets for trial in study.trials(chosen.settings, chosen.seeds[:1])]
    study_use, seen = Use("study", study.name), set[str]()
    uses = [study_use, *(Use("lens", name) for name in study.lenses)]
    for trial in trials:
        uses += _uses_of_settings(dict(trial.settings), seen)
    works = dict.fromkeys([*study.cites, *(claim.source.work for claim in study.claims)])
    return merged([cited(uses), {key: [str(study_use)] for key in works}])


def cited_by_path(path: Path) -> Cited:
    """Return the works that a file or a folder cites.

    The path is a `.toml`, the results of a study, a run or a trial, or a folder that holds any number of these.
    """
    if path.suffix == ".toml":
        return cited(uses_of_config(RunConfig.from_toml(path)))
    if path.suffix == ".json" and path.is_file():
        return _cited_by_results(path)
    if not path.is_dir():
        raise ValueError(f"{path} is neither a folder, nor the .toml of a run, nor the .json of a study's results.")
    found = list(_cited_below(path))
    if not found:
        raise ValueError(f"{path} holds no run, and no trial of a study.")
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


def _cited_below(path: Path) -> Iterator[Cited]:
    """Yield what each study, sweep and run in a folder cites."""
    trials: dict[str, list[Trial]] = {}
    for folder, below, names in os.walk(path):
        if "sweep.json" in names:
            yield cited([Use("search", read_json(Path(folder, "sweep.json"))["method"])])
        if "trial.json" in names and "config.toml" not in names:  # a run with a trial.json belongs to a sweep
            below.clear()  # the settings determine the runs
            trial_folder = Path(folder).resolve()
            trial = Trial(**read_trial(trial_folder / "trial.json")["trial"])
            trials.setdefault(trial_folder.parent.parent.name, []).append(trial)
        elif RUN_FILES & {*names}:
            below.clear()
            yield cited(uses_of_run(folder))
    for name, trials_of_study in trials.items():
        yield cited_by_study(_study(name, path), trials=trials_of_study)


def _cited_by_results(path: Path) -> Cited:
    content = read_json(path)
    if not isinstance(content.get("study"), str) or not isinstance(content.get("trials"), list):
        raise ValueError(f"{path} holds no results of a study: `study` and `trials` were expected in it.")
    trials = [Trial(**trial["trial"]) for trial in content["trials"]]
    return cited_by_study(_study(content["study"], path), trials=trials)


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
