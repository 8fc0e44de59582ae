"""What the benchmarks share: where results go, and how they are written."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

from mnemoscope.training.run_folder import environment

Key = TypeVar("Key", bound=Hashable)
KEPT = Path(__file__).parent / "results"


def folder(keep: bool) -> Path:
    """benchmarks/results if the run is to be kept, else runs/bench."""
    results = KEPT if keep else Path("runs") / "bench"
    results.mkdir(parents=True, exist_ok=True)
    return results


def command() -> str:
    """What was typed."""
    return f"python benchmarks/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}".strip()


def write_json(path: Path, **content: Any) -> None:
    """The command, the machine, and what was measured."""
    path.write_text(json.dumps({"command": command(), "environment": environment(), **content}, indent=1) + "\n")


def take_turns(
    work: dict[Key, Callable[[], Any]], repeats: int, warm_up: int = 2, wait: Callable[[], Any] = lambda: None
) -> tuple[dict[Key, float], dict[Key, float]]:
    """Median wall and CPU seconds of each, in turns, so that all meet one machine; `wait` lets a GPU finish."""
    wall, cpu = {key: [] for key in work}, {key: [] for key in work}
    for repeat in range(warm_up + repeats):
        for key, one in work.items():
            wait()
            start, start_cpu = time.perf_counter(), time.process_time()
            one()
            wait()
            if repeat >= warm_up:
                wall[key].append(time.perf_counter() - start)
                cpu[key].append(time.process_time() - start_cpu)
    medians = ({key: statistics.median(times[key]) for key in work} for times in (wall, cpu))
    return next(medians), next(medians)
