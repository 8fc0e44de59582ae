"""The table of an arena: its runs, the cells of the table, and the fronts of accuracy against state size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar, TypedDict, get_type_hints

from mnemoscope.arena.cell import ArenaCell, TrainedRun, mean_of_known
from mnemoscope.arena.definition import Arena
from mnemoscope.base.files import write_output
from mnemoscope.base.plurals import pluralise
from mnemoscope.base.reading import read_json
from mnemoscope.base.schema import checked
from mnemoscope.config.run_config import RunConfig
from mnemoscope.lenses.result import Result

NOT_YET = "not run yet"
DIVERGED = "did not stay finite with any learning rate of the tuning, and counts at chance in the mean"
DEFAULT_STEPS, DEFAULT_EVERY = RunConfig.steps, RunConfig.evaluate_every
"""Steps of a run, and steps between its evaluations, where an arena does not set them."""
KIND = "mnemoscope arena"
"""Mark of the files of a table."""
_IN_FILES: dict[Any, Any] = {tuple[float, ...]: list[float]}
"""Types that a file holds in another form."""


class _File(TypedDict):
    """The file of a table."""

    kind: str
    arena: dict[str, Any]
    chances: dict[str, float | None]
    environments: list[dict[str, Any]]
    runs: dict[str, list[Any]]


@dataclass(frozen=True, repr=False)
class ArenaTable(Result):
    """The finished runs of an arena, and the table that they make.

    `table.cell("gru", "parity")` is a cell, and `table.figure()` draws accuracy against state size with the Pareto
    front; `table.figure("parity")` that of one task. `save` writes a JSON file, so that results can be compared by eye.
    """

    noun: ClassVar[str] = "the table of an arena"
    drawn_by: ClassVar[str] = "draw_front"

    arena: Arena
    runs: tuple[TrainedRun, ...]
    """All finished runs: of the tuning, and of the table."""
    chances: Mapping[str, float | None]
    """Accuracy of the best predictor without memory, by task."""
    environments: tuple[Mapping[str, Any], ...] = ()
    """Versions and machines of the runs."""

    @property
    def networks(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.arena.networks)

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.arena.tasks)

    @cached_property
    def _runs(self) -> dict[tuple[str, str], list[TrainedRun]]:
        groups: dict[tuple[str, str], list[TrainedRun]] = {}
        for run in self.runs:
            groups.setdefault((run.network, run.task), []).append(run)
        return groups

    def tuning_runs(self, network: str, task: str) -> list[TrainedRun]:
        """Return the finished tuning runs of a network on a task."""
        return [run for run in self._runs.get((network, task), []) if run.seed == self.arena.tuning.seed]

    def cell(self, network: str, task: str) -> ArenaCell:
        """Return one cell of the table."""
        definition, seeds = self.arena.task(task), self.arena.seeds
        self.arena.network(network)
        found = {run.seed: run for run in self._runs.get((network, task), []) if run.seed in seeds}
        runs = tuple(found[seed] for seed in seeds if seed in found)
        reason = "" if runs else self.arena.reason_empty(network, task) or self._reason_missing(network, task)
        chance, untrainable = self.chances.get(task), reason == DIVERGED
        return ArenaCell(network, task, runs, len(seeds), chance, definition.longer, reason, untrainable)

    def _reason_missing(self, network: str, task: str) -> str:
        tuned = self.tuning_runs(network, task)
        complete = len(tuned) == len(self.arena.tuning.learning_rates)
        return DIVERGED if complete and all(run.accuracy is None for run in tuned) else NOT_YET

    def cells(self) -> Iterator[ArenaCell]:
        """Yield all cells, network by network."""
        return (self.cell(network, task) for network in self.networks for task in self.tasks)

    def mean_skill(self, network: str) -> tuple[float | None, int]:
        """Return the mean skill of a network over the tasks that it has run, and the number of these tasks."""
        skills = [skill for task in self.tasks if (skill := self.cell(network, task).skill) is not None]
        return (mean(skills) if skills else None), len(skills)

    def mean_state(self, network: str) -> float | None:
        """Return the mean number of numbers in the state over the tasks that a network has run."""
        return mean_of_known(self.cell(network, task).state for task in self.tasks)

    def ranking(self) -> list[str]:
        """Return the networks by their mean skill, the best first; those that have not run all tasks come last."""
        skills = {name: self.mean_skill(name) for name in self.networks}
        most = max(number for _, number in skills.values())
        return sorted(self.networks, key=lambda name: (skills[name][1] < most, -(skills[name][0] or 0.0)))

    def front(self, task: str | None = None) -> list[str]:
        """Return the Pareto front of a task, or of the mean over all tasks, from the smallest state to the largest.

        A network is on the front if none other has a state that is no larger and an accuracy that is no lower, one of
        the two being better.
        """
        return pareto_front(self.points(task))

    def points(self, task: str | None = None) -> dict[str, tuple[float, float]]:
        """Return state size and accuracy of each network on a task, or mean state size and mean skill over all."""
        found: dict[str, tuple[float | None, float | None]] = {}
        most = max(self.mean_skill(name)[1] for name in self.networks)
        for name in self.networks:
            if task is not None:
                cell = self.cell(name, task)
                found[name] = cell.state, cell.accuracy
            elif self.mean_skill(name)[1] == most:  # means over different tasks cannot be compared
                found[name] = self.mean_state(name), self.mean_skill(name)[0]
        return {name: (x, y) for name, (x, y) in found.items() if x is not None and y is not None}

    def evaluated_steps(self, task: str) -> list[int]:
        """Return the optimiser steps at which the runs of a task are evaluated, if none stops early."""
        settings = {**self.arena.training, **self.arena.task(task).settings}
        last, every = settings.get("steps", DEFAULT_STEPS), settings.get("evaluate_every", DEFAULT_EVERY)
        return [*range(every, last, every), last]

    def summary(self) -> str:
        """Return the size of the table, how much of it is filled, and the networks that do best."""
        cells = list(self.cells())
        filled, match = sum(cell.accuracy is not None for cell in cells), self.arena.match
        counts = {"network": self.networks, "task": self.tasks, "seed": self.arena.seeds}
        size = " x ".join(pluralise(len(each), name) for name, each in counts.items())
        rates = pluralise(len(self.arena.tuning.learning_rates), "learning rate")
        texts = [
            f"{size} at about {match.target:,} {match.quantity}, each tuned over {rates}: "
            f"{filled} of {len(cells)} cells are filled{_with_fewer(cells)}."
        ]
        skills = {name: self.mean_skill(name) for name in self.ranking()}
        tasks = max(number for _, number in skills.values())
        best = [
            f"{name} {skill:.3f}" for name, (skill, number) in skills.items() if number == tasks and skill is not None
        ]
        if best:
            which = "all tasks" if tasks == len(self.tasks) else f"{tasks} of {len(self.tasks)} tasks"
            texts.append(f"Mean over {which}, where chance is 0 and no error is 1: {', '.join(best[:3])}.")
        unstable = [f"{cell.network} on {cell.task}" for cell in cells if cell.diverged or cell.untrainable]
        if unstable:
            texts.append(f"Runs that did not stay finite count at chance: {', '.join(unstable)}.")
        return " ".join(texts)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row of plain values per cell, for a data frame or CSV."""
        return [
            {
                "network": cell.network,
                "task": cell.task,
                "accuracy": cell.accuracy,
                "low": cell.interval[0] if cell.interval else None,
                "high": cell.interval[1] if cell.interval else None,
                "spread": cell.spread,
                "seeds": len(cell.runs),
                "diverged": cell.diverged,
                "chance": cell.chance,
                "parameters": cell.parameters,
                "state": cell.state,
                "learning rate": cell.learning_rate,
                "seconds": cell.seconds,
                "joules": cell.joules,
                "longer": cell.longer,
                "runs": [run.hash for run in cell.runs],
                "remarks": "; ".join(cell.remarks()),
            }
            for cell in self.cells()
        ]

    def save(self, path: str | Path) -> Path:
        """Write the table as JSON, one column per line, and return the path."""
        columns = {each.name: [getattr(run, each.name) for run in self.runs] for each in fields(TrainedRun)}
        content = {
            "kind": KIND,
            "arena": self.arena.to_dict(),
            "chances": dict(self.chances),
            "environments": [dict(each) for each in self.environments],
            "runs": columns,
        }
        lines = [f"{json.dumps(name)}: {_one_line_each(value)}" for name, value in content.items()]
        write_output(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> ArenaTable:
        """Read a file that `save` wrote."""
        content = read_json(path, _File)
        columns, names = content["runs"], [each.name for each in fields(TrainedRun)]
        if content["kind"] != KIND or {*columns} != {*names} or len({len(column) for column in columns.values()}) > 1:
            raise ValueError(f"{path} is not {cls.noun} as this version of mnemoscope saves it.")
        try:
            for name, hint in get_type_hints(TrainedRun).items():
                schema: Any = _IN_FILES.get(hint, hint)
                checked(columns[name], list[schema], name)
            arena = Arena.from_dict(content["arena"])
        except ValueError as error:
            raise ValueError(f"{path} is not {cls.noun} as this version of mnemoscope saves it: {error}.") from error
        rows = (dict(zip(names, row, strict=True)) for row in zip(*(columns[name] for name in names), strict=True))
        runs = tuple(TrainedRun(**_with_tuples(row)) for row in rows)
        return cls(arena, runs, content["chances"], tuple(content["environments"]))


def _with_fewer(cells: Sequence[ArenaCell]) -> str:
    """Return how many of the filled cells have fewer seeds than the table; "" if none has."""
    fewer = sum(0 < len(cell.runs) < cell.expected for cell in cells)
    return f", {fewer} of them by fewer seeds" if fewer else ""


def pareto_front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the names of the points (cost, value) that no other point dominates, by rising cost.

    >>> pareto_front({"small": (1, 0.5), "large": (9, 0.9), "worse": (9, 0.7), "wasteful": (5, 0.5)})
    ['small', 'large']
    """

    def dominated(name: str) -> bool:
        cost, value = points[name]
        others = (point for other, point in points.items() if other != name)
        return any(x <= cost and y >= value and (x < cost or y > value) for x, y in others)

    return sorted((name for name in points if not dominated(name)), key=lambda name: points[name])


def _with_tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


def _one_line_each(value: Any) -> str:
    """Return JSON with one line for each entry of an object or of a list of objects."""
    if isinstance(value, Mapping):
        entries = (f"  {json.dumps(str(name))}: {json.dumps(each, allow_nan=False)}" for name, each in value.items())
        return "{\n" + ",\n".join(entries) + "\n}"
    if isinstance(value, Sequence) and value and isinstance(value[0], Mapping):
        return "[\n" + ",\n".join(f"  {json.dumps(each, allow_nan=False)}" for each in value) + "\n]"
    return json.dumps(value, allow_nan=False)
