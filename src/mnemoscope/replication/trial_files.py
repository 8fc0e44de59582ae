"""The trials of a study on disk, and the summary of the finished ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from mnemoscope.base.reading import read_json
from mnemoscope.replication.agreement import Agreement
from mnemoscope.replication.claims import Claim, Row, Subject
from mnemoscope.replication.study import Finished, Preset, Study, Trial
from mnemoscope.store import newer_version_note
from mnemoscope.store.schemas import TrialFile


def study_folder(study: Study, preset: str, root: str | Path) -> Path:
    """Return the folder of a preset, which has a folder for each trial."""
    return Path(root) / "studies" / study.name / preset


def trial_file(folder: Path, trial: Trial) -> Path:
    """Return the file with the result of a trial, which exists once the trial is finished."""
    return folder / trial.hash / "trial.json"


def preset_of(study: Study, name: str) -> Preset:
    """Return a preset by its name."""
    if name not in study.presets:
        raise ValueError(f"The study {study.name!r} has the presets {', '.join(study.presets)}, but not {name!r}.")
    return study.presets[name]


def preset_trials(study: Study, preset: str, seeds: Iterable[int]) -> Sequence[Trial]:
    """Return the trials of a preset with these seeds; raise if the study has no such preset."""
    preset_of(study, preset)
    return study.trials_of(preset, seeds)


def read_trial(path: Path) -> dict[str, Any]:
    """Read a `trial.json`."""
    try:
        return read_json(path, TrialFile)
    except ValueError as error:
        raise ValueError(f"{error} Remove it, and the trial is run again by --resume.") from error


def written_by_newer(environment: Mapping[str, Any]) -> str:
    """Return a remark if a newer version of mnemoscope made a trial, else an empty text."""
    return newer_version_note(environment.get("mnemoscope", ""))


def finished_trials(study: Study, preset: str, folder: Path) -> list[Finished]:
    """Return the finished trials of a preset in a folder, with any seeds, in the order of the grid."""
    stored = {path: read_trial(path) for path in folder.glob("*/trial.json")}
    seeds = sorted({content["trial"]["seed"] for content in stored.values()})
    trials = [(trial, stored.get(trial_file(folder, trial))) for trial in preset_trials(study, preset, seeds)]
    return [Finished(trial, found["result"], found.get("environment", {})) for trial, found in trials if found]


def command_of(study: Study, preset: str, finished: Sequence[Finished]) -> str:
    """Return the command that runs these trials."""
    seeds = _seeds(finished)
    chosen = "" if seeds == study.presets[preset].seeds else f" --seeds {' '.join(map(str, seeds))}"
    return f"mnemoscope study {study.name} --preset {preset}{chosen}"


def missing_trials(study: Study, preset: str, finished: Sequence[Finished]) -> list[str]:
    """Return the names of the trials of the command that are not finished."""
    done = {each.trial.hash for each in finished}
    trials = preset_trials(study, preset, _seeds(finished))
    return [f"{trial.name}, seed {trial.seed}" for trial in trials if trial.hash not in done]


def changed_trials(study: Study, preset: str, finished: Sequence[Finished]) -> list[Finished]:
    """Return the finished trials whose settings the preset does not have any more, with any seed."""
    current = {trial.hash for trial in preset_trials(study, preset, _seeds(finished))}
    return [each for each in finished if each.trial.hash not in current]


def preset_progress(study: Study, preset: str, finished: Sequence[Finished]) -> dict[str, int]:
    """Count the trials of a preset with the preset's seeds, and those of them that are finished."""
    done = {each.trial.hash for each in finished}
    trials = preset_trials(study, preset, preset_of(study, preset).seeds)
    return {"finished": sum(trial.hash in done for trial in trials), "trials": len(trials)}


def summary_of(
    study: Study,
    preset: str,
    finished: Sequence[Finished],
    rows: Sequence[Row],
    environments: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the content of `summary.json`; a file of `results/` is a copy of one."""
    different = [each for n, each in enumerate(environments) if each not in environments[:n]]
    return {
        "study": study.name,
        "preset": preset,
        "command": command_of(study, preset, finished),
        "of the preset": preset_progress(study, preset, finished),
        "not run": missing_trials(study, preset, finished),
        "environments": different,
        "claims": [claim_as_json(claim) for claim in study.claims],
        "rows": [row_as_json(row) for row in rows],
        "trials": [_finished_as_json(each, different) for each in finished],
    }


def _finished_as_json(finished: Finished, environments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a finished trial as plain data, with the position of its environment if there are several."""
    several = len(environments) > 1 and finished.environment in environments
    position = {"environment": environments.index(finished.environment)} if several else {}
    return {"trial": trial_as_json(finished.trial), **position, "result": finished.result}


def claim_as_json(claim: Claim) -> dict[str, Any]:
    """Return a claim as plain data."""
    return {
        **subject_as_json(claim.subject),
        "quantity": claim.quantity,
        "value": claim.value,
        **({} if claim.agreement is None else _agreement_as_json(claim.agreement)),
        "source": {"work": claim.source.work, "locus": claim.source.locus},
    }


def _agreement_as_json(agreement: Agreement) -> dict[str, Any]:
    """Return a range as plain data; an end without a limit is None."""
    ends = [end if isfinite(end) else None for end in (agreement.low, agreement.high)]
    kind = "best" if agreement.best else "mean" if agreement.of_mean else "each"
    return {f"{kind} within": ends, "chosen": agreement.chosen}


def row_as_json(row: Row) -> dict[str, Any]:
    """Return a row as plain data, with its subject if it has a claim."""
    subject = {} if row.claim is None else {"about": subject_as_json(row.claim.subject)}
    return {
        "quantity": row.quantity,
        **subject,
        "published": row.published,
        "ours": row.ours,
        "verdict": row.verdict.value,
        "matching": row.judgement.matching,
        "reason": row.judgement.reason,
        **({} if row.judgement.obstacle is None else {"obstacle": row.judgement.obstacle.value}),
        **({} if row.successes is None else {"successes": row.successes}),
        **({"diverged": row.diverged} if row.diverged else {}),
        **({"recipe": row.recipe} if row.recipe else {}),
        **({"reduced recipe": row.reduced} if row.reduced else {}),
        **({} if row.standard_error is None else {"standard error": float(f"{row.standard_error:.3g}")}),
        "remark": row.remark,
    }


def trial_as_json(trial: Trial) -> dict[str, Any]:
    """Return a trial as plain data."""
    return {"name": trial.name, "settings": dict(trial.settings), "seed": trial.seed}


def subject_as_json(subject: Subject) -> dict[str, Any]:
    """Return a subject as plain data."""
    return {"network": subject.network, "task": subject.task, "condition": dict(subject.condition)}


def _seeds(finished: Sequence[Finished]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(each.trial.seed for each in finished))
