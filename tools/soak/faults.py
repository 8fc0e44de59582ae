"""Faults of the machine: a full disk, read-only folders, threads, and memory that grows."""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import torch
from tests.training.test_training import CONFIG, artefacts, run
from tools.reliability import Case, NotRun
from tools.soak.isolation import call, check_ended, in_process, mount_memory, own_mounts, resident_memory
from tools.soak.kills import TRAINED

import mnemoscope as ms

THREADS = 8
SEARCHES = 300
MOST_GROWTH = 24 << 20
"""Bytes by which a process may grow over the searches after the first tenth."""
SHORT = replace(CONFIG, steps=4, evaluate_every=2, threads=None)


def fill_disk(case: Case) -> None:
    """Train on a disk that becomes full; the run fails with a sentence, and resumes to the same bytes with room."""
    size = case.random.choice([4, 8, 12, 16, 24, 32, 48, 64, 96, 128])
    _in_mounts(case, lambda: _train_on_full_disk(case.folder, size))


def _train_on_full_disk(folder: Path, kilobytes: int) -> None:
    disk, config = folder / "disk", folder / "try.toml"
    config.write_text(TRAINED.to_toml())
    words = ["train", str(config), "--root", str(disk), "--json"]
    if os.environ.get("MNEMOSCOPE_SOAK_LIMIT"):
        disk.mkdir()
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes << 10, most))
        first = call(words)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    else:
        mount_memory(disk, f"{kilobytes}k")
        first = call(words)
        mount_memory(disk, "64m", again=True)
    first.check((0, 1, 2))
    if first.status:
        call([*words, "--resume"]).check((0,))
    if artefacts(TRAINED, disk) != _expected():
        raise AssertionError(f"After a disk of {kilobytes} kB was full, the resumed run has other bytes.")
    print("full" if first.status else "enough room")


def read_only(case: Case) -> None:
    """Run every command on a read-only disk: those that read answer, those that write fail with a sentence."""
    _in_mounts(case, lambda: _use_read_only(case.folder, case.random))


def _use_read_only(folder: Path, chance: random.Random) -> None:
    if os.environ.get("MNEMOSCOPE_SOAK_LIMIT"):
        raise NotRun("this machine does not permit mounts of a process")
    disk, config = folder / "disk", folder / "try.toml"
    config.write_text(replace(TRAINED, steps=2).to_toml())
    mount_memory(disk, "64m")
    root = ["--root", str(disk)]
    call(["train", str(config), *root, "--json"]).check((0,))
    run_folder = next(disk.glob("try/*"))
    unfinished = chance.random() < 0.5
    if unfinished:
        (run_folder / "result.json").unlink()
    mount_memory(disk, "64m", read_only=True, again=True)
    reading = [["runs", *root], ["studies", *root], ["cite", str(run_folder)], ["list"]]
    writing = [
        ["train", str(config), *root, "--overwrite"],
        ["train", "flipflop", "--steps", "2", *root],
        ["sweep", str(config), "--over", "hidden_size=2,3", "--engine", "here", *root],
        ["study", "fisher-delay-line", "--preset", "smoke", "--engine", "here", *root],
        ["runs", *root, "--csv", str(disk / "runs.csv")],
    ]
    writing += [["train", str(config), *root, "--resume"]] if unfinished else [["inspect", str(run_folder)]]
    for words in reading:
        call(words).check((0,))
    for words in writing:
        answer = call(words).check((1, 2))
        if "ead-only" not in answer.text:
            raise AssertionError(
                f"`mnemoscope {' '.join(words)}` does not say that the disk is read-only: {answer.text}"
            )


def _in_mounts(case: Case, attack: Callable[[], object]) -> None:
    """Run an attack in a process with mounts that end with it."""

    def isolated() -> int:
        try:
            own_mounts()
        except NotRun:
            os.environ["MNEMOSCOPE_SOAK_LIMIT"] = "1"  # limit the size of files instead
        try:
            attack()
        except NotRun as reason:
            print(f"not run: {reason}")
        return 0

    _expected()
    ended = check_ended(in_process(isolated, case.folder))
    if "not run: " in ended.text:
        raise NotRun(ended.text.partition("not run: ")[2].strip())
    case.notes["full"] += "\nfull" in f"\n{ended.text}"


@cache
def _expected() -> tuple[bytes, bytes]:
    folder = Path(mkdtemp(prefix="soak-"))
    check_ended(in_process(lambda: run(TRAINED, folder), folder))
    return artefacts(TRAINED, folder)


def train_in_threads(case: Case) -> None:
    """Train several networks in threads at once; each has the weights of a training alone, and torch is unchanged."""
    configs = [replace(SHORT, seed=case.random.randrange(1 << 30)) for _ in range(THREADS)]
    (case.folder / "seeds.txt").write_text("\n".join(str(config.seed) for config in configs))

    def together() -> None:
        torch.manual_seed(0)
        before = torch.get_rng_state()
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda config: run(config, case.folder / "together"), configs))
        if not torch.equal(before, torch.get_rng_state()):
            raise AssertionError("The generator of the caller has changed.")
        for config in configs:
            run(config, case.folder / "alone")
        names = ("together", "alone")
        wrong = [
            config.seed for config in configs if len({artefacts(config, case.folder / name) for name in names}) == 2
        ]
        if wrong:
            raise AssertionError(f"{len(wrong)} of {len(configs)} runs have other bytes than alone: seeds {wrong}.")

    check_ended(in_process(together, case.folder))


def search_often(case: Case) -> None:
    """Search for fixed points again and again in one process; its memory does not grow."""

    def searches() -> None:
        first = 0
        for number in range(SEARCHES):
            torch.manual_seed(number)
            network = torch.nn.GRU(2, 12) if number % 2 else torch.nn.RNN(2, 12)
            ms.find_fixed_points(ms.Dynamics(network), seed=number)
            if number == SEARCHES // 10:
                first = resident_memory()
        grown = resident_memory() - first
        print(f"grown by {grown / (1 << 20):.1f} MB")
        if grown > MOST_GROWTH:
            raise AssertionError(f"The process grew by {grown:,} bytes over {SEARCHES} searches.")

    ended = check_ended(in_process(searches, case.folder, seconds=1800))
    case.notes[ended.text.strip().splitlines()[-1]] += 1
