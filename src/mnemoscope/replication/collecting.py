"""Merge the finished trials of runs into the files of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemoscope import registry
from mnemoscope.base.files import write_json
from mnemoscope.replication.results import results_file, stored_environments, stored_trials
from mnemoscope.replication.study import Finished, Study, Trial
from mnemoscope.replication.trial_files import finished_trials, preset_trials, summary_of, written_by_newer
from mnemoscope.store import find_study_results


@dataclass(frozen=True)
class Collected:
    """Trials of one preset that were merged into its file of results."""

    study: str
    preset: str
    path: Path
    added: int
    """Number of trials that the results did not have."""
    replaced: int
    """Number of trials in place of which the new measurement was taken."""
    kept: int
    """Number of new trials that were not taken, as the results have them and `replace` was not given."""
    differing: int
    """Number of these whose settings differ from those of the older trial with the same name and seed."""
    outdated: int
    """Number of trials in the results whose settings the preset does not have any more."""

    def __str__(self) -> str:
        """Describe the merge in a sentence."""
        parts = [f"{self.added} added", f"{self.replaced} replaced", f"{self.kept} not taken"]
        if self.differing:
            parts[-1] += f" ({self.differing} have other settings than the older ones: --replace takes them)"
        if self.outdated:
            parts.append(f"{self.outdated} have settings that the preset does not have any more")
        return f"{self.path}: {', '.join(parts)}."


def collect_results(
    root: str | Path, results: str | Path, studies: Sequence[str] = (), *, replace: bool = False
) -> list[Collected]:
    """Merge the finished trials in `<root>/studies` into `<results>/<study>.<preset>.json`, and rewrite its rows.

    Args:
        root: folder of all runs.
        results: folder of results, which must exist.
        studies: only these studies; empty: all.
        replace: take the new measurement of a trial that the results have, or that they have with other settings.

    Trials of the preset smoke are no results, and are left out.

    """
    if not Path(results).is_dir():
        raise FileNotFoundError(f"There is no folder {results}. Name the folder of results with --results.")
    for name in studies:
        registry.studies[name]  # raises on an unknown name
    collected = []
    for held in find_study_results(None, root):
        if held.problem is not None:
            raise ValueError(f"{held.path} {held.problem}")
        if held.trials == 0 or held.preset == "smoke" or (studies and held.study not in studies):
            continue
        study: Study = registry.studies.load(held.study)
        new = finished_trials(study, held.preset, held.path)
        path = results_file(results, held.study, held.preset)
        collected.append(_merge(study, held.preset, path, new, replace))
    return collected


def _merge(study: Study, preset: str, path: Path, new: Sequence[Finished], replace: bool) -> Collected:
    old = stored_trials(path, study) if path.exists() else []
    environments = stored_environments(path) if path.exists() else []
    for each in new:
        if newer := written_by_newer(each.environment):
            raise ValueError(f"The trial {each.trial.hash} of {study.name} {preset} was {newer}. Use that version.")
    before = {_key(each): each.trial.hash for each in old}
    taken = [each for each in new if replace or _key(each) not in before]
    keys = {_key(each) for each in taken}
    kept = [each for each in new if _key(each) not in keys]
    merged = _in_order(study, preset, [*(each for each in old if _key(each) not in keys), *taken])
    if taken:
        used = [*environments, *(each.environment for each in taken)]
        write_json(path, summary_of(study, preset, merged, study.summarise(merged), _of_use(used, merged)))
    return Collected(
        study.name,
        preset,
        path,
        added=len(keys - before.keys()),
        replaced=len(keys & before.keys()),
        kept=len(kept),
        differing=sum(before[_key(each)] != each.trial.hash for each in kept),
        outdated=len(merged) - len({trial.hash for trial in _grid(study, preset, merged)} & {*_hashes(merged)}),
    )


def _key(finished: Finished) -> tuple[str, int]:
    """Return the name and the seed: of two trials with other settings, only one can be in the results."""
    return finished.trial.name, finished.trial.seed


def _hashes(finished: Sequence[Finished]) -> list[str]:
    return [each.trial.hash for each in finished]


def _grid(study: Study, preset: str, finished: Sequence[Finished]) -> Sequence[Trial]:
    """Return all trials of the preset with the seeds of the finished ones."""
    return preset_trials(study, preset, sorted({each.trial.seed for each in finished}))


def _in_order(study: Study, preset: str, finished: Sequence[Finished]) -> list[Finished]:
    """Return the trials in the order of the grid; those that the preset does not have any more come last."""
    places = {(trial.name, trial.seed): place for place, trial in enumerate(_grid(study, preset, finished))}
    return sorted(finished, key=lambda each: places.get(_key(each), len(places)))


def _of_use(environments: Sequence[Mapping[str, Any]], finished: Sequence[Finished]) -> list[Mapping[str, Any]]:
    """Return the environments without those of replaced trials; if a trial's is unknown, it may be any of them."""
    if any(not each.environment for each in finished):
        return list(environments)
    return [each for each in environments if any(each == one.environment for one in finished)]
