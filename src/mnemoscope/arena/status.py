"""How much of an arena is done, and the time of what is left."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mnemoscope.arena.plan import Sizes, planned_runs
from mnemoscope.arena.result import ArenaTable


def status_rows(table: ArenaTable, sizes: Sizes) -> list[dict[str, Any]]:
    """Return a row for each task and one for all: runs that are done and left, and their time.

    What is left is estimated by the mean of the finished runs of the task; without any, by the arena's file. Runs of
    the table whose tuning is not complete are counted too. The hours are those of single runs: with 24 processes that
    share a GPU, as when the times were measured, it is busy for a 24th of them.
    """
    arena = table.arena
    each = len(arena.tuning.learning_rates) + len(arena.seeds)
    done, ended = Counter[str](), Counter[str]()
    for planned, run in planned_runs(arena, sizes, table.runs):
        done[planned.task.name] += run is not None
    for cell in table.cells():
        ended[cell.task] += cell.accuracy is not None
    rows: list[dict[str, Any]] = []
    for task in arena.tasks:
        cells = [pair for pair in sizes if pair[1] == task.name]
        lost = sum(_diverged(table, network, task.name) for network, _ in cells)
        left = each * len(cells) - done[task.name] - lost * len(arena.seeds)
        measured = [run.seconds for run in table.runs if run.task == task.name and run.seconds is not None]
        mean = sum(measured) / len(measured) if measured else task.seconds
        rows.append(
            {
                "task": task.name,
                "cells filled": ended[task.name],
                "of": len(arena.networks),
                "runs done": done[task.name],
                "left": left,
                "seconds a run": round(mean, 1),
                "measured": bool(measured),
                "hours of runs left": round(left * mean / 3600, 2),
            }
        )
    summed = {name: sum(row[name] for row in rows) for name in ("cells filled", "of", "runs done", "left")}
    hours = round(sum(row["hours of runs left"] for row in rows), 2)
    return [*rows, {"task": "all", **summed, "seconds a run": "", "measured": "", "hours of runs left": hours}]


def _diverged(table: ArenaTable, network: str, task: str) -> bool:
    """Whether no learning rate of the tuning stayed finite, so that the cell has no further runs."""
    tuned = table.tuning_runs(network, task)
    complete = len(tuned) == len(table.arena.tuning.learning_rates)
    return complete and all(run.accuracy is None for run in tuned)
