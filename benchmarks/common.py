"""Functions that several benchmarks use: timing, options, and the files with the results."""

from __future__ import annotations

import json
import platform
import resource
import shlex
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

import torch

from mnemoscope.training.run_folder import environment

Key = TypeVar("Key", bound=Hashable)
RESULTS = Path(__file__).parent / "results"
"""Folder of the results that are part of the repository."""
CLEAR_PEAK = Path("/proc/self/clear_refs")
"""Linux resets the peak of the resident set when 5 is written here."""


def folder(keep: bool) -> Path:
    """Return benchmarks/results with `--keep`, else runs/bench."""
    results = RESULTS if keep else Path("runs") / "bench"
    results.mkdir(parents=True, exist_ok=True)
    return results


def figures(keep: bool) -> Path:
    """Return docs/figures with `--keep`, else runs/bench."""
    return RESULTS.parent.parent / "docs" / "figures" if keep else folder(keep)


def command() -> str:
    """Return the command line of this run, with the names of files in place of their paths on this machine."""
    arguments = [_portable(argument) for argument in sys.argv[1:]]
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *arguments])


def _portable(argument: str) -> str:
    """Return an argument, "--option=path" included, with a path outside the present folder as its name alone."""
    option, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
    path = Path(value)
    if path.is_absolute():
        value = str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name)
    return f"{option}{equals}{value}"


def commit(checkout: Path, folder: str = ".") -> str:
    """Return the last commit that changed a folder of a checkout, its date, and whether files differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(checkout), *arguments, "--", folder], check=True, capture_output=True, text=True
        ).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("log", "-1", "--format=%h of %cs") + (" with changes" if changed else "")


def library_commit() -> str:
    """Return the last commit that changed the library, src/."""
    return commit(RESULTS.parent.parent, "src")


def write_json(path: Path, **content: Any) -> None:
    """Write the command, the commit of the library, the machine and the measurements."""
    header = {"command": command(), "commit": library_commit(), "environment": environment()}
    path.write_text(json.dumps({**header, **content}, indent=1) + "\n")


def device_name(device: str) -> str:
    """Return the device as part of the names of files: results of a CPU also name its architecture."""
    return f"cpu_{platform.machine()}" if device == "cpu" else device


def machine() -> str:
    """Return the processor and its architecture, for the heads of tables."""
    return f"{environment()['cpu']}, {platform.machine()}"


def synchronise(device: str) -> None:
    """Wait until a GPU has finished its work."""
    if device == "cuda":
        torch.cuda.synchronize()


def peak_memory(device: str, reset: bool = False) -> float:
    """Return the peak of the memory in bytes: of torch's allocations on a GPU, of the resident set on a CPU.

    `reset` begins a new peak, on a CPU where Linux allows it; elsewhere that of a process only rises.
    """
    if device == "cuda":
        if reset:
            torch.cuda.reset_peak_memory_stats()
        return torch.cuda.max_memory_allocated()
    if reset and CLEAR_PEAK.exists():
        CLEAR_PEAK.write_text("5")
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kilobytes on Linux


def option_parser(description: str | None) -> ArgumentParser:
    """Return a parser with the option `--keep`."""
    made = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    made.add_argument("--keep", action="store_true", help="write to benchmarks/results instead of runs/bench")
    return made


def take_turns(
    work: dict[Key, Callable[[], Any]], repeats: int, warm_up: int = 2, wait: Callable[[], Any] = lambda: None
) -> tuple[dict[Key, float], dict[Key, float]]:
    """Return the median wall and CPU seconds of each function; repeats take turns, so that all see the same load.

    Args:
        work: the functions to time.
        repeats: timed calls of each.
        warm_up: calls of each that come before and do not count.
        wait: called before a clock is read, for example to let a GPU finish.

    """
    wall, cpu = {key: [] for key in work}, {key: [] for key in work}
    for repeat in range(warm_up + repeats):
        for key, function in work.items():
            wait()
            start, start_cpu = time.perf_counter(), time.process_time()
            function()
            wait()
            if repeat >= warm_up:
                wall[key].append(time.perf_counter() - start)
                cpu[key].append(time.process_time() - start_cpu)
    medians = ({key: statistics.median(times[key]) for key in work} for times in (wall, cpu))
    return next(medians), next(medians)
