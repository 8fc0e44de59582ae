"""The table of an arena: its runs, the cells of the table, and the fronts of accuracy against state size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any, ClassVar, TypedDict, get_type_hints

from mnemoscope.arena.cell import ArenaCell, TrainedRun, mean_of_known
from mnemoscope.arena.definition import Arena
from mnemoscope.base.files import write_output
from mnemoscope.base.plurals import pluralise
from mnemoscope.base.reading import read_json
from mnemoscope.base.schema import checked
from mnemoscope.config.run_config import RunConfig
from mnemoscope.lenses.result import Result
from mnemoscope.replication.differences import Difference, measure_difference
from mnemoscope.replication.means import FEWEST, t_reach

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

    def mean_interval(self, network: str) -> tuple[float, float] | None:
        """Return the 95% interval of the mean skill; None if a task has fewer than three seeds."""
        skill, reach = self.mean_skill(network)[0], self.mean_reach(network)
        return None if skill is None or reach is None else (skill - reach, skill + reach)

    def mean_reach(self, network: str) -> float | None:
        """Return half the width of the interval of the mean skill; None if a task has fewer than three seeds.

        The networks of different tasks are trained independently, so that the variances of their means add up; the
        degrees of freedom are those of Welch and Satterthwaite. A task without a trainable network counts as certain.
        """
        cells = [cell for task in self.tasks if (cell := self.cell(network, task)).skill is not None]
        trained = [cell for cell in cells if not cell.untrainable]
        if not cells or any(len(cell.runs) < FEWEST for cell in trained):
            return None
        errors = [stdev(cell.skills) ** 2 / len(cell.skills) for cell in trained]
        if not (total := sum(errors)):
            return 0.0
        freedom = total**2 / sum(error**2 / (len(cell.skills) - 1) for error, cell in zip(errors, trained, strict=True))
        return t_reach(freedom) * sqrt(total) / len(cells)

    def undecided(self, network: str) -> list[str]:
        """Return the networks whose mean skill may be the higher or the lower one with other seeds.

        The difference of two means is tested as that of any two networks is (`replication.differences`): by Welch's
        test, with the number of the other networks as the number of comparisons. A network of which a task has fewer
        than three seeds is in no comparison, and neither is one that has not run the same tasks.
        """
        if self.mean_reach(network) is None:
            return []
        others = [
            name
            for name in self.ranking()
            if name != network
            and self._run_tasks(name) == self._run_tasks(network)
            and self.mean_reach(name) is not None
        ]
        differences = {name: self._difference(network, name, len(others)) for name in others}
        return [name for name, each in differences.items() if each.low <= 0 <= each.high]

    def _run_tasks(self, network: str) -> list[str]:
        """Return the tasks that have a part in the mean skill of a network."""
        return [task for task in self.tasks if self.cell(network, task).skill is not None]

    def _difference(self, first: str, second: str, comparisons: int) -> Difference:
        """Return the difference of the mean skills of two networks, as one of several comparisons."""
        return measure_difference(self._skills(first), self._skills(second), comparisons)

    def _skills(self, network: str) -> list[list[float]]:
        """Return the skill of each seed, for the tasks that a network has run; a task that cannot be trained has 0."""
        cells = (self.cell(network, task) for task in self._run_tasks(network))
        return [[0.0, 0.0] if cell.untrainable else cell.skills for cell in cells]

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
        the two being better. On a task, accuracies above the target, at which trainings stop, count as equal to it.
        """
        return pareto_front(self.points(task))

    def points(self, task: str | None = None) -> dict[str, tuple[float, float]]:
        """Return state size and accuracy of each network on a task, or mean state size and mean skill over all.

        An accuracy on a task is at most the target, at which a training stops: the rest is chance.
        """
        target = self.arena.training.get("target_score") or 1.0
        found: dict[str, tuple[float | None, float | None]] = {}
        most = max(self.mean_skill(name)[1] for name in self.networks)
        for name in self.networks:
            if task is not None:
                cell = self.cell(name, task)
                found[name] = cell.state, None if cell.accuracy is None else min(cell.accuracy, target)
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
        best = {name: skill for name, (skill, number) in skills.items() if number == tasks and skill is not None}
        if best:
            which = "all tasks" if tasks == len(self.tasks) else f"{tasks} of {len(self.tasks)} tasks"
            first = ", ".join(self._with_reach(name, skill) for name, skill in [*best.items()][:3])
            texts.append(f"Mean over {which}, where chance is 0 and no error is 1: {first}.")
            if number := len(self.undecided(name := next(iter(best)))):
                others = pluralise(number, "other network")
                texts.append(f"The best is not decided: other seeds may put {others} before {name}.")
        unstable = [f"{cell.network} on {cell.task}" for cell in cells if cell.diverged or cell.untrainable]
        if unstable:
            texts.append(f"Runs that did not stay finite count at chance: {', '.join(unstable)}.")
        return " ".join(texts)

    def _with_reach(self, name: str, skill: float) -> str:
        reach = self.mean_reach(name)
        return f"{name} {skill:.3f}" + ("" if reach is None else f" ± {reach:.3f}")

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
        table = cls(arena, runs, content["chances"], tuple(content["environments"]))
        if wrong := table._contradiction():
            raise ValueError(f"{path} is not {cls.noun} that mnemoscope saved: {wrong}.")
        return table

    def _contradiction(self) -> str:
        """Return what a file states that cannot be; "" if nothing."""
        if missing := [task for task in self.tasks if task not in self.chances]:
            return f"it has no chance of the task {missing[0]!r}"
        for run in self.runs:
            name = f"the run {run.hash} of {run.network} on {run.task}"
            if run.network not in self.networks or run.task not in self.tasks:
                return f"{name} is not in the arena"
            if not 0 <= run.environment < len(self.environments):
                return f"{name} has the environment {run.environment}, but there are {len(self.environments)}"
            if run.accuracy is not None and not 0 <= run.accuracy <= 1:
                return f"{name} has the accuracy {run.accuracy}"
        return ""


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
