"""A sweep as data: one configuration, the fields that vary, how values are chosen, and what is sought."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from itertools import product
from math import prod
from pathlib import Path
from random import Random
from typing import Any, Literal

from mnemoscope import registry
from mnemoscope.base.files import DEBRIS, read_json, write_json
from mnemoscope.base.validation import check_whole
from mnemoscope.base.version import __version__
from mnemoscope.config.hashing import without_later_defaults
from mnemoscope.config.options import options_of
from mnemoscope.config.run_config import RunConfig, changed
from mnemoscope.store import newer_than_this
from mnemoscope.sweeps.methods import METHODS
from mnemoscope.sweeps.search_space import Choices, Distribution, Value
from mnemoscope.training.build import build_task, checked_cell_options

Direction = Literal["minimise", "maximise"]
HOME = "sweeps"
"""Folder below that of all runs."""

_NOT_SWEPT = {
    "name": "it is the name of the sweep",
    "seed": "seeds are given by `seeds` (`--seeds`)",
    "threads": "it changes no result",
    "checkpoint_every": "it changes no result",
}
_TABLES = {"task_options": "task", "cell_options": "cell"}


@dataclass(frozen=True)
class Point:
    """One choice of values."""

    number: int
    """In the order in which they were chosen."""
    values: Mapping[str, Value]


@dataclass(frozen=True)
class Sweep:
    """Everything that determines a sweep.

    >>> from mnemoscope.config import PRESETS
    >>> from mnemoscope.sweeps.search_space import space
    >>> sweep = Sweep(PRESETS["flipflop"], space(["hidden_size=8,16", "cell=gru,lstm"]), seeds=(0, 1))
    >>> [dict(point.values) for point in sweep.points()][1]
    {'hidden_size': 8, 'cell': 'lstm'}
    """

    base: RunConfig
    """What is the same in all runs. Its name is that of the sweep."""
    over: Mapping[str, Distribution]
    """What varies, by the names of its fields; options as `cell_options.nonlinearity`."""
    method: str = "grid"
    """A key of `METHODS`."""
    trials: int | None = None
    """Points to choose; a grid has its own number."""
    seeds: tuple[int, ...] = (0,)
    """With which each point is run; what counts of it is the mean over them."""
    objective: str = "loss"
    """A number that a finished run reports: loss, a score of the task, steps, seconds."""
    direction: Direction | None = None
    """None: an accuracy is maximised, everything else minimised."""
    sampling_seed: int = 0
    """Seed of the choice of points."""
    at_a_time: int = 4
    """Points that Optuna chooses before it is told how they went: as many as can run at the same time."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            near = get_close_matches(self.method, METHODS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"There is no method {self.method!r}.{hint} There are {', '.join(METHODS)}.")
        if not self.over:
            raise ValueError("A sweep needs at least one field that varies, such as learning_rate=0.001,0.003.")
        if not self.seeds or len({*self.seeds}) < len(self.seeds):
            raise ValueError(f"seeds must be some, each once, but are {self.seeds}.")
        check_whole(0, sampling_seed=self.sampling_seed)
        check_whole(1, at_a_time=self.at_a_time)
        for name in self.over:
            self._check_name(name)
        self._check_trials()

    def _check_name(self, name: str) -> None:
        table, dot, _ = name.partition(".")
        if name in _NOT_SWEPT:
            raise ValueError(f"{name} cannot be swept: {_NOT_SWEPT[name]}.")
        known = [each.name for each in fields(RunConfig) if each.name not in (*_NOT_SWEPT, *_TABLES)]
        if name in known or (dot and table in _TABLES):
            return  # which options there are depends on the task and the cell
        names = [*known, *self._options()]
        near = get_close_matches(name, names, n=1) or [one for one in names if one.endswith(f".{name}")]
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"There is no field {name!r} of a run{hint} There are {', '.join(names)}.")

    def _options(self) -> list[str]:
        task, cell = registry.tasks.load(self.base.task), registry.learners(self.base.task).load(self.base.cell)
        given = {"input_size", "hidden_size", "output_size"}
        return [f"task_options.{name}" for name in options_of(task)] + [
            f"cell_options.{name}" for name in options_of(cell) if name not in given
        ]

    def _check_trials(self) -> None:
        if self.method != "grid":
            if self.trials is None:
                raise ValueError(f"The method {self.method} needs a number of trials (`--trials`).")
            check_whole(1, trials=self.trials)
            return
        ranges = [f"{name}={values.words}" for name, values in self.over.items() if not isinstance(values, Choices)]
        if ranges:
            raise ValueError(
                f"A grid needs lists of values, but {ranges[0]} is a range: choose by another method, such as random."
            )
        if self.trials is not None:
            raise ValueError("A grid has every combination once: trials (`--trials`) are for the other methods.")

    @property
    def number(self) -> int:
        """How many points there are."""
        if self.trials is not None:
            return self.trials
        return prod(len(values.ends) for values in self.over.values())

    @property
    def sought(self) -> Direction:
        """In which direction the objective is better."""
        return self.direction or ("maximise" if "accuracy" in self.objective else "minimise")

    def points(self) -> Iterator[Point]:
        """All points of a grid, or of a random choice, of which the first ones are the same however many there are."""
        if self.method == "grid":
            for number, values in enumerate(product(*(each.ends for each in self.over.values()))):
                yield Point(number, dict(zip(self.over, values, strict=True)))
            return
        for number in range(self.number):
            random = Random(f"{self.sampling_seed} {number}")
            yield Point(number, {name: values.draw(random) for name, values in self.over.items()})

    def config(self, point: Point, seed: int) -> RunConfig:
        """The run of a point. The options of the base's task or cell are not for another one."""
        changes: dict[str, Any] = {}
        for name, value in point.values.items():
            table, dot, key = name.partition(".")
            if dot:
                changes.setdefault(table, {})[key] = value
            else:
                changes[name] = value
        others = {table: {} for table, of in _TABLES.items() if of in changes and changes[of] != getattr(self.base, of)}
        return changed(replace(self.base, **others), changes, seed=seed)

    def probes(self) -> Iterator[Point]:
        """Points that show whether all are runs, before the first is: all, or the ends of each range."""
        if not METHODS[self.method].sampler:
            yield from self.points()
            return
        first = {name: values.ends[0] for name, values in self.over.items()}
        for name, values in self.over.items():
            for value in values.ends:
                yield Point(0, {**first, name: value})

    def check(self, point: Point) -> None:
        """Raise if the point is no run: values that do not fit, or options that its task or its cell does not have."""
        config = self.config(point, self.seeds[0])
        build_task(config)
        checked_cell_options(config)

    def as_json(self) -> dict[str, Any]:
        """What `sweep.json` holds."""
        base = without_later_defaults(asdict(self.base))
        return {
            "mnemoscope": __version__,
            "method": self.method,
            "over": {
                name: list(values.values) if isinstance(values, Choices) else values.words
                for name, values in self.over.items()
            },
            "base": {name: value for name, value in base.items() if name not in (*_NOT_SWEPT, *self.over)},
            "trials": self.trials,
            "seeds": list(self.seeds),
            "objective": self.objective,
            "direction": self.sought,
            "sampling_seed": self.sampling_seed,
            "at_a_time": self.at_a_time,
        }

    def same(self) -> tuple[str, ...]:
        """What must be the same of two sweeps that share a folder: there may be more trials later; and more seeds or
        another objective, unless these have decided what was tried.
        """
        told = () if not METHODS[self.method].sampler else ("seeds", "objective", "direction", "at_a_time")
        seeded = () if self.method == "grid" else ("sampling_seed",)
        return ("method", "over", "base", *seeded, *told)


def sweep_folder(name: str, root: str | Path) -> Path:
    """Where the runs of a sweep lie, each in a folder named by the hash of its configuration."""
    return Path(root) / HOME / name


def begin(sweep: Sweep, folder: Path, resume: bool, storage: str) -> None:
    """Make the folder that of this sweep; raises if it is not its own, or if it holds runs and is not to go on.

    `storage` says where Optuna keeps what it knows; nothing, if it is not asked.
    """
    path, content = folder / "sweep.json", {**sweep.as_json(), "storage": storage}
    held = [each.name for each in folder.iterdir() if not each.name.startswith(DEBRIS)]
    if held and path.name not in held:
        raise FileExistsError(f"{folder} is not the folder of a sweep: it has no sweep.json. Choose another --name.")
    if held:
        before = read_json(path)
        newer = newer_than_this(str(before.get("mnemoscope", "")))
        if newer:
            raise ValueError(f"{path} was {newer}: nothing was touched. Use that version, or another --name.")
        other = [name for name in (*sweep.same(), "storage") if before.get(name) != content[name]]
        if len(held) > 1 and other:
            told = "; ".join(f"{name} is {before.get(name)} there, and {content[name]} here" for name in other)
            raise ValueError(f"{folder} holds another sweep: {told}. Choose another --name, or remove that folder.")
        if len(held) > 1 and not resume:
            raise FileExistsError(
                f"{folder} holds runs of this sweep. Keep them and run what is missing with resume=True (`--resume`), "
                f"or choose another --name."
            )
    write_json(path, content)
