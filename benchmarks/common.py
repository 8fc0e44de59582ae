"""What the benchmarks share: where results go, and how they are written."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mnemoscope.training.run_folder import environment

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
