"""Kills at random moments: resumed work has the result of uninterrupted work."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.sweeps.test_sweeps import BASE, sweep, values
from tests.training.test_training import CONFIG, artefacts, run
from tools.reliability import Case
from tools.soak.isolation import check_ended, start, wait, warm_up

from mnemoscope.base.files import TEMPORARY_PREFIX
from mnemoscope.replication import run_study

TRAINED = replace(CONFIG, steps=60, checkpoint_every=2, evaluate_every=3, threads=1)
"""Writes to its folder at almost every step."""
STUDY, SEEDS = "learned-schur", (0, 1, 2)
SWEPT = sweep("hidden_size=2,3,4", "clip=0.5,1")
MOST_KILLS = 4
"""Kills of one case before it may finish."""


def kill_training(case: Case) -> None:
    """Kill a training several times, resume it, and compare weights and metrics byte by byte."""
    _kill(
        case, lambda root: run(TRAINED, root, resume=True), lambda root: artefacts(TRAINED, root), _straight_training()
    )


def kill_study(case: Case) -> None:
    """Kill a study that trains, resume it, and compare its rows."""
    settings = {"preset": "smoke", "seeds": SEEDS, "resume": True, "progress": False}
    _kill(case, lambda root: run_study(STUDY, root=root, **settings), _study_rows, _straight_study())


def kill_sweep(case: Case) -> None:
    """Kill a sweep, resume it, and compare the values of all its runs."""
    from mnemoscope.sweeps import run_sweep

    def work(root: Path) -> object:
        return run_sweep(SWEPT, root, resume=True, progress=False)

    _kill(case, work, lambda root: values(work(root)), _straight_sweep())


def _kill(case: Case, work: Callable[[Path], object], read: Callable[[Path], object], straight: tuple) -> None:
    """Start the work in a process, kill it at a random moment, several times; then let it finish and compare."""
    expected, seconds = straight
    root, output = case.folder / "root", case.folder / "output.txt"
    root.mkdir()
    kills = case.random.randint(1, MOST_KILLS)
    for _ in range(kills):
        # SIGTERM and SIGINT give the work a chance to write; SIGKILL does not
        sent = case.random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        process = start(lambda: work(root), output)
        ended = wait(process, output, case.random.uniform(0, 1.1 * seconds), sent)
        if ended.stopped:
            case.notes["kills"] += 1
            case.notes["in the middle of a write"] += any(root.rglob(f"{TEMPORARY_PREFIX}*"))
    check_ended(wait(start(lambda: work(root), output), output))
    if read(root) != expected:
        raise AssertionError(f"After {kills} kills the result in {root} differs from that of an uninterrupted run.")


def _timed(work: Callable[[Path], object], read: Callable[[Path], object]) -> tuple[object, float]:
    """Return the result of uninterrupted work, and the seconds that it takes in a forked process."""
    warm_up()
    folder = Path(mkdtemp(prefix="soak-"))
    (folder / "root").mkdir()
    for name in ("warm-up", "root"):
        root = folder / name
        root.mkdir(exist_ok=True)
        ended = check_ended(wait(start(lambda root=root: work(root), folder / "output.txt"), folder / "output.txt"))
    return read(folder / "root"), ended.seconds


@cache
def _straight_training() -> tuple:
    return _timed(lambda root: run(TRAINED, root), lambda root: artefacts(TRAINED, root))


@cache
def _straight_study() -> tuple:
    return _timed(lambda root: run_study(STUDY, "smoke", SEEDS, root, progress=False), _study_rows)


def _study_rows(root: Path) -> object:
    """Return the rows of the finished study, and its trials without their durations."""
    return run_study(STUDY, "smoke", SEEDS, root, finished_only=True, progress=False).rows


@cache
def _straight_sweep() -> tuple:
    from mnemoscope.sweeps import run_sweep

    def work(root: Path) -> object:
        return run_sweep(SWEPT, root, resume=True, progress=False)

    return _timed(work, lambda root: values(work(root)))


def start_twice(case: Case) -> None:
    """Start the same work two or three times at once; one may be refused with a sentence, and the result is right."""
    kind = ("training", "study", "sweep")[case.number % 3]
    root = case.folder / "root"
    root.mkdir()
    command, read, (expected, seconds) = _COMMANDS[kind](root, case.folder)
    processes = []
    for number in range(case.random.randint(2, 3)):
        output = case.folder / f"output{number}.txt"
        processes.append((start(lambda: _call(command), output), output))
        time.sleep(case.random.choice([0, 0, case.random.uniform(0, seconds)]))
    results = [wait(*process) for process in processes]
    refused = sum(ended.status == 2 for ended in results)
    case.notes["starters refused with a sentence"] += refused
    for ended in results:
        if ended.status not in (0, 2) or "Traceback" in ended.text or ended.seconds > 250:
            raise AssertionError(f"A starter of the {kind} ended with {ended.status}:\n{ended.text[-3000:]}")
    if refused == len(results):
        raise AssertionError(f"All starters of the {kind} were refused:\n{results[0].text[-1000:]}")
    if read(root) != expected:
        raise AssertionError(f"After {len(results)} starters the {kind} in {root} differs from an undisturbed one.")


def _call(words: list[str]) -> int:
    from mnemoscope.cli import main

    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        return main(words)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1


def _training_command(root: Path, folder: Path) -> tuple:
    (folder / "try.toml").write_text(TRAINED.to_toml())
    words = ["train", str(folder / "try.toml"), "--root", str(root), "--resume", "--json"]
    return words, lambda root: artefacts(TRAINED, root), _straight_training()


def _study_command(root: Path, folder: Path) -> tuple:
    words = ["study", STUDY, "--preset", "smoke", "--seeds", *map(str, SEEDS), "--root", str(root), "--resume"]
    return [*words, "--engine", "here", "--json"], _study_rows, _straight_study()


def _sweep_command(root: Path, folder: Path) -> tuple:
    (folder / "tiny.toml").write_text(BASE.to_toml())
    words = ["sweep", str(folder / "tiny.toml"), "--over", "hidden_size=2,3,4", "clip=0.5,1", "--root", str(root)]
    from mnemoscope.sweeps import run_sweep

    def read(root: Path) -> object:
        return values(run_sweep(SWEPT, root, resume=True, progress=False))

    return [*words, "--resume", "--engine", "here", "--json"], read, _straight_sweep()


_COMMANDS = {"training": _training_command, "study": _study_command, "sweep": _sweep_command}
