"""What a configuration, a run or a study has used, so that it can be cited: the work behind `mnemoscope cite`."""

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
"""For what each work is cited, in words, by its key."""


def cited_by_study(study: Study, preset: str | None = None, trials: Iterable[Trial] | None = None) -> Cited:
    """For what each work is cited by a study: its sources, its lenses, and what trials are made of, those of one
    preset, or of all.
    """
    if trials is None:
        presets = [preset_of(study, name) for name in ([preset] if preset is not None else study.presets)]
        trials = [trial for each in presets for trial in study.trials(each.settings, each.seeds[:1])]
    own, seen = Use("study", study.name), set[str]()
    uses = [own, *(Use("lens", name) for name in study.lenses)]
    for trial in trials:
        uses += _of_settings(dict(trial.settings), seen)
    works = dict.fromkeys([*study.cites, *(claim.source.work for claim in study.claims)])
    return merged([cited(uses), {key: [str(own)] for key in works}])


def cited_by_path(path: Path) -> Cited:
    """For what each work is cited by a file or a folder: a `.toml`, results of a study, a run or a trial, or a folder
    that holds any number of these.
    """
    if path.suffix == ".toml":
        return cited(uses_of_config(RunConfig.from_toml(path)))
    if path.suffix == ".json" and path.is_file():
        return _of_result(path)
    if not path.is_dir():
        raise ValueError(f"{path} is neither a folder, nor the .toml of a run, nor the .json of a study's results.")
    found = list(_below(path))
    if not found:
        raise ValueError(f"{path} holds no run, and no trial of a study.")
    return merged(found)


def merged(parts: Iterable[Cited]) -> Cited:
    """All that is cited by any of these.

    >>> merged([{"a": ["task copy"]}, {"b": ["cell gru"], "a": ["cell gru", "task copy"]}])
    {'a': ['task copy', 'cell gru'], 'b': ['cell gru']}
    """
    found: Cited = {}
    for part in parts:
        for key, words in part.items():
            found[key] = list(dict.fromkeys([*found.get(key, []), *words]))
    return found


def _below(path: Path) -> Iterator[Cited]:
    """What the trials, the sweeps and the runs in a folder cite."""
    trials: dict[str, list[Trial]] = {}
    for at, below, names in os.walk(path):
        if "sweep.json" in names:
            yield cited([Use("search", read_json(Path(at, "sweep.json"))["method"])])
        if "trial.json" in names and "config.toml" not in names:  # a run that has one is of a sweep
            below.clear()  # its runs are what its settings say
            folder = Path(at).resolve()
            trial = Trial(**read_trial(folder / "trial.json")["trial"])
            trials.setdefault(folder.parent.parent.name, []).append(trial)
        elif RUN_FILES & {*names}:
            below.clear()
            yield cited(uses_of_run(at))
    for name, held in trials.items():
        yield cited_by_study(_study(name, path), trials=held)


def _of_result(path: Path) -> Cited:
    content = read_json(path)
    if not isinstance(content.get("study"), str) or not isinstance(content.get("trials"), list):
        raise ValueError(f"{path} holds no results of a study: `study` and `trials` were expected in it.")
    return cited_by_study(_study(content["study"], path), trials=[Trial(**each["trial"]) for each in content["trials"]])


def _study(name: str, path: Path) -> Study:
    if name not in registry.studies:
        raise ValueError(f"{path} holds trials of {name!r}, which is no study of this version. {registry.HINT}")
    return registry.studies.load(name)


def _of_settings(settings: dict[str, Any], seen: set[str]) -> Iterator[Use]:
    """Of a run what its configuration says, of other trials the cell and the task that they name; networks that were
    `seen` with the same options are not built again.
    """
    if "task" in settings and {*settings} <= {each.name for each in fields(RunConfig)}:
        config = RunConfig(**settings)
        same = repr((config.cell, config.cell_options, registry.is_relational(config.task)))
        yield Use("task", config.task)
        yield Use("optimiser", config.optimiser)
        if same not in seen:
            seen.add(same)
            yield from uses_of_config(config)
        return
    for kind in ("cell", "task"):
        if settings.get(kind, "") in registry.REGISTRIES[kind]:
            yield Use(kind, settings[kind])
