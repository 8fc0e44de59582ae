"""The command list. Importing it does not import torch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mnemoscope import registry
from mnemoscope.cli.tyro_types import Positional
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.config.options import options_of, required_options


@dataclass(frozen=True)
class List:
    """Show all cells, relational networks, tasks, lenses, studies and presets, with their sources.

    A lens has two names: that of pages and citations, and that of its function, with `import mnemoscope as ms`.
    `mnemoscope list tasks` also shows the options of each task, and the loss and the accuracy that a network reaches
    without memory, or by guessing if the task is relational. Tasks whose answers are values, such as adding, have no
    such accuracy. For tasks of random bits it shows the wrong bits of constant answers.
    """

    what: Positional[Literal["all", "cells", "networks", "tasks", "lenses", "studies", "presets"]] = "all"
    """List to show."""
    json: bool = False
    """Print as JSON: a list of objects with name, summary and source; for `all`, an object with one such list each."""

    def run(self) -> int:
        lists = {
            "cells": registry.cells,
            "networks": registry.networks,
            "tasks": registry.tasks,
            "lenses": registry.lenses,
            "studies": registry.studies,
        }
        rows = {name: [_row(entry) for entry in entries] for name, entries in lists.items()}
        rows["lenses"] = [
            row | {"python": _python_name(entry)} for row, entry in zip(rows["lenses"], registry.lenses, strict=True)
        ]
        rows["presets"] = [
            {"name": name, "summary": f"{_learner(config)} on {config.task}", "source": "mnemoscope"}
            for name, config in PRESETS.items()
        ]
        baselines: dict[str, str] = {}
        if self.what == "tasks":
            from mnemoscope.training import task_named  # imports torch, which the other lists do not need

            for row in rows["tasks"]:
                task_class = registry.tasks.load(row["name"])
                if needed := required_options(task_class):
                    known = options_of(task_class).items()
                    options = {name: None if name in needed else parameter.default for name, parameter in known}
                    row |= {"options": options, "baseline": None, "chance": None, "trivial": {}}
                    baselines[row["name"]] = f"the loss depends on {' and '.join(needed)}, which must be given"
                    continue
                task, options = task_named(row["name"]), asdict(task_class())
                chance, trivial = task.chance(), task.uninformed_scores()
                row |= {"options": options, "baseline": task.baseline(), "chance": chance, "trivial": trivial}
                reached = f"loss {task.baseline_label} {task.baseline():.3g}"
                reached += after(", accuracy ", "" if chance is None else f"{chance:.3g}")
                baselines[row["name"]] = reached + after("; wrong bits ", task.uninformed_summary())
        chosen = rows if self.what == "all" else {self.what: rows[self.what]}
        if self.json:
            print(json.dumps(chosen if self.what == "all" else chosen[self.what], indent=2))
            return 0
        for name, entries in chosen.items():
            print(f"{name}:")
            width = max(16, *(len(entry["name"]) for entry in entries))
            python_width = max(len(entry.get("python", "")) for entry in entries)
            for entry in entries:
                python = f"{entry['python']:{python_width}} " if python_width else ""
                print(f"  {entry['name']:{width}} {python}{entry['summary']}  [{entry['source']}]")
                if "options" in entry:
                    options = ", ".join(f"{name} {value}" for name, value in entry["options"].items())
                    print(f"  {'':{width}} {options}: {baselines[entry['name']]}")
        return 0


def _row(entry: registry.Entry) -> dict[str, Any]:
    return {"name": entry.name, "summary": entry.summary, "source": entry.source, "tags": list(entry.tags)}


def _python_name(entry: registry.Entry) -> str:
    """Return how Python code calls a lens: `ms.find_fixed_points`, or the module and function of a plugin."""
    module, _, name = entry.target.partition(":")
    return f"ms.{name}" if module == "mnemoscope.lenses" else f"{module}.{name}"


def _learner(config: RunConfig) -> str:
    return config.cell if registry.is_relational(config.task) else f"{config.cell} {config.hidden_size}"


def after(separator: str, text: str) -> str:
    """Return the text after a separator; "" for an empty text."""
    return f"{separator}{text}" if text else ""
