"""The trials of a study on disk, and the summary of those that are finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mnemoscope.base.files import read_json
from mnemoscope.replication.study import Finished, Preset, Row, Study, Trial
from mnemoscope.store import newer_version_note


def study_folder(study: Study, preset: str, root: str | Path) -> Path:
    """Where the trials of a preset live, a folder for each."""
    return Path(root) / "studies" / study.name / preset


def trial_file(folder: Path, trial: Trial) -> Path:
    """What a trial has measured, once it is finished."""
    return folder / trial.hash / "trial.json"


def preset_of(study: Study, name: str) -> Preset:
    """A preset by its name."""
    if name not in study.presets:
        raise ValueError(f"The study {study.name!r} has the presets {', '.join(study.presets)}, but not {name!r}.")
    return study.presets[name]


def read_trial(path: Path) -> dict[str, Any]:
    """What a `trial.json` holds."""
    content = read_json(path)
    trial, result = content.get("trial"), content.get("result")
    if not isinstance(result, dict) or not isinstance(trial, dict) or not isinstance(trial.get("seed"), int):
        raise ValueError(
            f"{path} should hold a trial and its result, but lacks them: it was edited, or written by another version "
            f"of mnemoscope. Remove it, and the trial is run again by --resume."
        )
    return content


def written_by_newer(environment: Mapping[str, Any]) -> str:
    """What is to be said of a trial with these versions, if it was made by a newer one of mnemoscope."""
    return newer_version_note(str(environment.get("mnemoscope", "")))


def finished_trials(study: Study, preset: Preset, folder: Path) -> list[Finished]:
    """All trials of the preset that the folder holds, with whichever seeds they were asked for, in the grid's order."""
    seeds = sorted({read_trial(path)["trial"]["seed"] for path in folder.glob("*/trial.json")})
    trials = [trial for trial in study.trials(preset.settings, seeds) if trial_file(folder, trial).exists()]
    contents = [read_trial(trial_file(folder, trial)) for trial in trials]
    return [
        Finished(trial, content["result"], content.get("environment", {}))
        for trial, content in zip(trials, contents, strict=True)
    ]


def command_of(study: Study, preset: str, finished: Sequence[Finished]) -> str:
    """What runs these trials."""
    seeds = tuple(dict.fromkeys(one.trial.seed for one in finished))
    chosen = "" if seeds == study.presets[preset].seeds else f" --seeds {' '.join(map(str, seeds))}"
    return f"mnemoscope study {study.name} --preset {preset}{chosen}"


def missing_trials(study: Study, preset: Preset, finished: Sequence[Finished]) -> list[str]:
    """Which trials of the command are not finished, in words."""
    there = {one.trial.hash for one in finished}
    seeds = tuple(dict.fromkeys(one.trial.seed for one in finished))
    trials = study.trials(preset.settings, seeds)
    return [f"{trial.name}, seed {trial.seed}" for trial in trials if trial.hash not in there]


def of_the_preset(study: Study, preset: Preset, finished: Sequence[Finished]) -> dict[str, int]:
    """How many trials the preset has, with its own seeds, and how many of these are finished."""
    there = {one.trial.hash for one in finished}
    trials = [trial.hash for trial in study.trials(preset.settings, preset.seeds)]
    return {"finished": sum(one in there for one in trials), "trials": len(trials)}


def summary(
    study: Study,
    preset: str,
    finished: Sequence[Finished],
    rows: Sequence[Row],
    environments: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """What `summary.json` holds; a file of `results/` is a copy of one."""
    chosen = preset_of(study, preset)
    return {
        "study": study.name,
        "preset": preset,
        "command": command_of(study, preset, finished),
        "of the preset": of_the_preset(study, chosen, finished),
        "not run": missing_trials(study, chosen, finished),
        "environments": [one for n, one in enumerate(environments) if one not in environments[:n]],
        "published": [asdict(one) for one in study.published],
        "rows": [asdict(row) for row in rows],
        "trials": [{"trial": asdict(one.trial), "result": one.result} for one in finished],
    }
