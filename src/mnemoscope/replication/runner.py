"""Run a study: every trial once, resumable, then the summary and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from mnemoscope import registry
from mnemoscope.base.files import lock_folder, write_json
from mnemoscope.engines import Engine, InProcess, Job, Local, Outcome
from mnemoscope.engines.job_display import JobDisplay
from mnemoscope.replication.claims import Row
from mnemoscope.replication.page import render_study
from mnemoscope.replication.study import Study, Trial
from mnemoscope.replication.trial_files import (
    command_of,
    finished_trials,
    missing_trials,
    preset_of,
    read_trial,
    study_folder,
    summary_of,
    trial_as_json,
    trial_file,
    written_by_newer,
)
from mnemoscope.report.markup import check_report_extra

FAILED = "failed.log"
"""What a trial that could not be finished has said."""


@dataclass(frozen=True)
class StudyResult:
    """What came out, and where it lies."""

    study: str
    preset: str
    folder: Path
    page: Path
    rows: list[Row]
    trials: int
    """Trials that were asked for; the rows may tell of more, which lay in the folder."""
    reused: int
    """Trials that had been finished before."""
    failed: list[str]
    """Trials that an engine could not finish, each with what went wrong."""


def run_study(
    name: str,
    preset: str = "cpu",
    seeds: Sequence[int] | None = None,
    root: str | Path = "runs",
    *,
    resume: bool = False,
    finished_only: bool = False,
    progress: bool = True,
    engine: Engine | None = None,
) -> StudyResult:
    """Run the trials of a study and write `summary.json` and `page.html` beside them.

    Both tell of all finished trials of the preset in the folder, whichever seeds were asked for this time.

    Args:
        name: a study of `registry.studies`.
        preset: "smoke", "cpu" or "paper".
        seeds: seeds to run instead of the preset's own.
        root: the study lives in `<root>/studies/<name>/<preset>`, a folder per trial.
        resume: keep the trials that are finished and run the rest; without it, a folder that holds trials is refused.
        finished_only: run nothing, and tell of what is finished.
        progress: show progress bars.
        engine: where the trials are run; None: one after the other, here. One which fails takes no other with it.

    """
    check_report_extra()
    study: Study = registry.studies.load(name)
    chosen = preset_of(study, preset)
    folder = study_folder(study, preset, root)
    seeds = chosen.seeds if seeds is None else tuple(seeds)
    if len({*seeds}) < len(seeds):
        raise ValueError(f"Each seed is run once, but seeds are {', '.join(map(str, seeds))}.")
    trials = study.trials(chosen.settings, seeds)
    if not trials:
        raise ValueError(f"The study {name!r} has no trial for the preset {preset!r} and the seeds {seeds}.")
    earlier = [read_trial(path) for path in folder.glob("*/trial.json")]  # a broken one is told before the work begins
    for path, trial in zip(folder.glob("*/trial.json"), earlier, strict=True):
        if newer := written_by_newer(trial.get("environment", {})):
            raise ValueError(f"{path} was {newer}: nothing was touched. Use that version, or another --root.")
    if finished_only and not earlier:
        raise FileNotFoundError(f"{folder} holds no finished trial of the study {name!r}.")
    if earlier and not resume and not finished_only:
        raise FileExistsError(
            f"{folder} holds trials of an earlier run. Keep them and run what is missing with resume=True "
            f"(`--resume`), or remove the folder."
        )
    to_do = [] if finished_only else [trial for trial in trials if not trial_file(folder, trial).exists()]
    engine = engine or InProcess(progress)
    _check_device(study, preset, to_do, engine)
    with lock_folder(folder, "running a study"):
        outcomes = _by_engine(engine, study, preset, to_do, root, progress)
    failed = [one for one in outcomes if one.error is not None]
    finished = finished_trials(study, chosen, folder)
    if not finished:
        raise RuntimeError("\n".join(["No trial was finished.", *map(_what_failed, failed)]))
    reused = len(finished) if finished_only else len(trials) - len(to_do)
    rows = study.summarise(finished)
    environments = [one.environment for one in finished]
    write_json(folder / "summary.json", summary_of(study, preset, finished, rows, environments))
    command, missing = command_of(study, preset, finished), missing_trials(study, chosen, finished)
    page = folder / "page.html"
    page.write_text(render_study(study, chosen, folder, finished, rows, command, missing), encoding="utf-8")
    return StudyResult(study.name, preset, folder, page, rows, reused if finished_only else len(trials), reused,
                       [_what_failed(one) for one in failed])  # fmt: skip


def run_trial(study: str, preset: str, seed: int, trial: str, root: str) -> None:
    """Run the trial with that hash, if it is not finished: what an engine calls."""
    of: Study = registry.studies.load(study)
    folder = study_folder(of, preset, root)
    for each in of.trials(preset_of(of, preset).settings, (seed,)):
        if each.hash == trial:
            if not trial_file(folder, each).exists():
                _run_trial(of, each, folder, progress=True)
            return
    raise ValueError(f"The study {study!r} has no trial {trial} for the preset {preset!r} and the seed {seed}.")


def _by_engine(
    engine: Engine, study: Study, preset: str, trials: Sequence[Trial], root: str | Path, progress: bool
) -> list[Outcome]:
    jobs = [
        Job(f"{trial.name}, seed {trial.seed}", "mnemoscope.replication.runner:run_trial",
            {"study": study.name, "preset": preset, "seed": trial.seed, "trial": trial.hash},
            str(root), str(study_folder(study, preset, "") / trial.hash))
        for trial in trials
    ]  # fmt: skip
    display = JobDisplay(study.name, len(jobs), progress)
    return list(display.outcomes(engine.events(jobs)))


def _check_device(study: Study, preset: str, trials: Sequence[Trial], engine: Engine) -> None:
    """Told before the first of many trials; what the machines of a cluster have, only they know."""
    if not _need_gpu(trials) or not isinstance(engine, InProcess | Local) or torch.cuda.is_available():
        return
    others = [name for name, each in study.presets.items() if not _need_gpu(study.trials(each.settings, (0,)))]
    raise ValueError(
        f"The preset {preset!r} of the study {study.name!r} needs a GPU, and torch finds none here. Without one there "
        f"are the presets {', '.join(others)}; --engine ray and slurm may find one elsewhere."
    )


def _need_gpu(trials: Sequence[Trial]) -> bool:
    return any(trial.settings.get("device") == "cuda" for trial in trials)


def _what_failed(one: Outcome) -> str:
    return one.save_log(Path(one.job.root, one.job.folder, FAILED))


def _run_trial(study: Study, trial: Trial, folder: Path, progress: bool) -> None:
    own = folder / trial.hash
    own.mkdir(parents=True, exist_ok=True)
    result = study.run(trial, own, progress)
    made_by = study.environment(trial, own)
    write_json(own / "trial.json", {"trial": trial_as_json(trial), "result": result, "environment": made_by})
    (own / FAILED).unlink(missing_ok=True)  # of an earlier time
