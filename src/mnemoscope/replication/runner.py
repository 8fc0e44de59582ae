"""Run a study: every trial once, resumable, then the summary and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from mnemoscope import registry
from mnemoscope.base.files import lock_folder, write_atomically, write_json
from mnemoscope.engines import Engine, InProcess, Job, Local, Outcome
from mnemoscope.engines.job_display import JobDisplay
from mnemoscope.engines.job_states import FAILED
from mnemoscope.replication import trial_files
from mnemoscope.replication.claims import Row
from mnemoscope.replication.page import render_study
from mnemoscope.replication.study import DEVICE, Finished, Study, Trial
from mnemoscope.replication.verdicts import judge_in_preset
from mnemoscope.report.markup import check_report_extra


@dataclass(frozen=True)
class StudyResult:
    """Result of a study, and where its files are."""

    study: str
    preset: str
    folder: Path
    page: Path
    rows: list[Row]
    trials: int
    """Number of requested trials; the rows may cover more, which were already in the folder."""
    reused: int
    """Number of trials that were already finished."""
    failed: list[str]
    """Messages about the trials that failed."""


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
    device: str | None = None,
) -> StudyResult:
    """Run the trials of a study and write `summary.json` and `page.html` next to them.

    Both files cover all finished trials of the preset in the folder, not only those of the requested seeds.

    Args:
        name: a study of `registry.studies`.
        preset: name of a preset of the study, such as "smoke", "cpu" or "paper", or "reduced" and "published".
        seeds: seeds to run instead of the preset's.
        root: the study lives in `<root>/studies/<name>/<preset>`, a folder per trial.
        resume: keep the finished trials and run the rest; without it, a folder with trials is refused.
        finished_only: run nothing, and summarise the finished trials.
        progress: show progress bars.
        engine: where the trials run; None: sequentially in this process. A trial that fails does not stop the others.
        device: "cpu" or "cuda", on which networks are trained instead of the preset's device; None: the preset's.

    """
    check_report_extra()
    study: Study = registry.studies.load(name)
    chosen = trial_files.preset_of(study, preset)
    folder = trial_files.study_folder(study, preset, root)
    seeds = chosen.seeds if seeds is None else tuple(seeds)
    if len({*seeds}) < len(seeds):
        raise ValueError(f"Each seed is run once, but seeds are {', '.join(map(str, seeds))}.")
    trials = study.trials_of(preset, seeds)
    if not trials:
        raise ValueError(f"The study {name!r} has no trial for the preset {preset!r} and the seeds {seeds}.")
    earlier = [trial_files.read_trial(path) for path in folder.glob("*/trial.json")]  # fail early on a damaged file
    for path, trial in zip(folder.glob("*/trial.json"), earlier, strict=True):
        if newer := trial_files.written_by_newer(trial.get("environment", {})):
            raise ValueError(f"{path} was {newer}: nothing was touched. Use that version, or another --root.")
    if finished_only and not earlier:
        raise FileNotFoundError(f"{folder} holds no finished trial of the study {name!r}.")
    if earlier and not resume and not finished_only:
        raise FileExistsError(
            f"{folder} holds trials of an earlier run. Keep them and run what is missing with resume=True, "
            f"or remove the folder."
        )
    if device is not None and not any(DEVICE in trial.settings for trial in trials):
        raise ValueError(
            f"The trials of the preset {preset!r} of the study {name!r} have no device to choose: leave out device "
            f"(`--device`)."
        )
    to_do = [] if finished_only else [trial for trial in trials if not trial_files.trial_file(folder, trial).exists()]
    engine = engine or InProcess(progress)
    _check_device(study, preset, [trial.on(device) for trial in to_do], engine)
    with lock_folder(folder, "running a study"):
        outcomes = _run_on_engine(engine, study, preset, to_do, root, progress, device)
    failed = [
        each.save_log(Path(each.job.root, each.job.folder, FAILED)) for each in outcomes if each.error is not None
    ]
    finished = trial_files.finished_trials(study, preset, folder)
    if not finished:
        raise RuntimeError("\n".join(["No trial was finished.", *failed]))
    reused = len(finished) if finished_only else len(trials) - len(to_do)
    rows = _summarise(study, preset, finished, folder, reused)
    environments = [each.environment for each in finished]
    write_json(folder / "summary.json", trial_files.summary_of(study, preset, finished, rows, environments))
    page = folder / "page.html"
    write_atomically(page, render_study(study, preset, folder, finished, rows).encode())
    requested = reused if finished_only else len(trials)
    return StudyResult(study.name, preset, folder, page, rows, requested, reused, failed)


def _summarise(study: Study, preset: str, finished: Sequence[Finished], folder: Path, reused: int) -> list[Row]:
    """Return the rows of the table; stored measurements of another type are an error that names their folder."""
    try:
        rows = study.summarise(finished)
        return [replace(row, judgement=judge_in_preset(preset, row.judgement)) for row in rows]
    except Exception as error:  # a study may fail in any way on measurements of the wrong type
        if not reused:
            raise  # the trials have just been run, so the study is at fault
        reason = f"{error} is missing" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
        raise ValueError(
            f"The stored trials in {folder} cannot be summarised ({reason}): one of them was edited, or written by "
            f"another version of mnemoscope. Remove its folder and continue with --resume."
        ) from error


def run_trial(study: str, preset: str, seed: int, trial: str, root: str, device: str | None = None) -> None:
    """Run the trial with this hash unless it is finished; by default on the device of the preset. Engines call it."""
    loaded: Study = registry.studies.load(study)
    candidates = trial_files.preset_trials(loaded, preset, (seed,))
    chosen = next((each for each in candidates if each.hash == trial), None)
    if chosen is None:
        raise ValueError(f"The study {study!r} has no trial {trial} for the preset {preset!r} and the seed {seed}.")
    folder = trial_files.study_folder(loaded, preset, root) / trial
    if (folder / "trial.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    running = chosen.on(device)
    result = loaded.run(running, folder, progress=True)
    content = {"trial": trial_files.trial_as_json(chosen), "result": result}
    elsewhere = {DEVICE: device} if running != chosen else {}
    environment = {**loaded.environment(running, folder), **elsewhere}
    write_json(folder / "trial.json", {**content, "environment": environment})
    (folder / FAILED).unlink(missing_ok=True)  # log of an earlier attempt


def trial_job(study: Study, preset: str, trial: Trial, root: str | Path, device: str | None = None) -> Job:
    """Return the job that runs a trial, on the given device or on that of the preset."""
    elsewhere = {} if device is None else {DEVICE: device}
    return Job(
        f"{trial.name}, seed {trial.seed}",
        "mnemoscope.replication.runner:run_trial",
        {"study": study.name, "preset": preset, "seed": trial.seed, "trial": trial.hash, **elsewhere},
        str(root),
        str(trial_files.study_folder(study, preset, "") / trial.hash),
    )


def _run_on_engine(
    engine: Engine,
    study: Study,
    preset: str,
    trials: Sequence[Trial],
    root: str | Path,
    progress: bool,
    device: str | None,
) -> list[Outcome]:
    jobs = [trial_job(study, preset, trial, root, device) for trial in trials]
    display = JobDisplay(study.name, len(jobs), progress)
    return list(display.outcomes(engine.events(jobs)))


def _check_device(study: Study, preset: str, trials: Sequence[Trial], engine: Engine) -> None:
    """Fail early if a local run needs a GPU; the machines of a cluster may have one."""
    if not need_gpu(trials) or not isinstance(engine, InProcess | Local) or torch.cuda.is_available():
        return
    others = [name for name in study.presets if not need_gpu(study.trials_of(name, (0,)))]
    raise ValueError(
        f"The preset {preset!r} of the study {study.name!r} needs a GPU, and torch finds none here. Without one there "
        f"are the presets {', '.join(others)}; --device cpu trains the networks of this one on a CPU, often many times "
        f"more slowly; --engine ray and slurm may find a GPU elsewhere."
    )


def need_gpu(trials: Sequence[Trial]) -> bool:
    """Return whether any of the trials runs on a GPU."""
    return any(trial.settings.get(DEVICE) == "cuda" for trial in trials)
