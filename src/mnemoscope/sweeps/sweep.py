"""A sweep as data: one configuration, the fields that vary, the search method, and the objective."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from math import prod
from pathlib import Path
from random import Random
from typing import Any, Literal

from mnemoscope import registry
from mnemoscope.base.files import TEMPORARY_PREFIX, write_json
from mnemoscope.base.reading import read_json
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.base.validation import check_whole
from mnemoscope.base.version import __version__
from mnemoscope.config.hashing import without_later_defaults
from mnemoscope.config.options import options_of
from mnemoscope.config.run_config import RunConfig, changed
from mnemoscope.store import newer_version_note
from mnemoscope.store.schemas import SweepFile
from mnemoscope.sweeps.methods import METHODS
from mnemoscope.sweeps.search_space import Choices, Distribution, Value, short_text
from mnemoscope.training.build import build_task, checked_cell_options

Direction = Literal["minimise", "maximise"]
SUBFOLDER = "sweeps"
"""Folder of all sweeps, inside the folder of all runs."""

_NOT_SWEPT = {
    "name": "it is the name of the sweep",
    "seed": "seeds are given by `seeds` (`--seeds`)",
    "threads": "it changes no result",
    "checkpoint_every": "it changes no result",
    "cuda_graphs": "it changes no result",
}
"""Fields that cannot vary, each with the reason."""
_TABLES = {"task_options": "task", "cell_options": "cell"}
"""Tables of options, each with the field whose options it holds."""


@dataclass(frozen=True)
class Point:
    """A point of the search space: one value for each field that varies."""

    number: int
    """Position in the order in which the points were chosen."""
    values: Mapping[str, Value]
    """Values by field."""

    def __str__(self) -> str:
        return ", ".join(f"{name} {short_text(value)}" for name, value in self.values.items())


@dataclass(frozen=True)
class Sweep:
    """Everything that determines a sweep.

    >>> from mnemoscope.config import PRESETS
    >>> from mnemoscope.sweeps.search_space import parse_space
    >>> sweep = Sweep(PRESETS["flipflop"], parse_space(["hidden_size=8,16", "cell=gru,lstm"]), seeds=(0, 1))
    >>> [dict(point.values) for point in sweep.points()][1]
    {'hidden_size': 8, 'cell': 'lstm'}
    """

    base: RunConfig
    """The configuration that all runs share. Its name is the name of the sweep."""
    over: Mapping[str, Distribution]
    """The values of each field that varies; options are written as `cell_options.nonlinearity`."""
    method: str = "grid"
    """Search method, a key of `METHODS`."""
    trials: int | None = None
    """Number of points; None for a grid, which has all combinations."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of the runs of each point; the objective of a point is the mean over them."""
    objective: str = "loss"
    """Number to optimise that a finished run reports: loss, a score of the task, steps, seconds."""
    direction: Direction | None = None
    """Direction of the objective; None: an accuracy is maximised, everything else is minimised."""
    sampling_seed: int = 0
    """Seed of the search."""
    at_a_time: int = 4
    """Number of points that Optuna proposes before it receives their results: as many as can run in parallel."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(
                f"There is no method {self.method!r}.{did_you_mean(self.method, METHODS)} There are "
                f"{', '.join(METHODS)}."
            )
        if not self.over:
            raise ValueError(
                'A sweep needs at least one field that varies: over={"learning_rate": [0.001, 0.003]}, or on the '
                "command line --over learning_rate=0.001,0.003."
            )
        if not self.seeds or len({*self.seeds}) < len(self.seeds):
            raise ValueError(f"seeds must be at least one number, each once, but are {self.seeds}.")
        check_whole(0, sampling_seed=self.sampling_seed)
        check_whole(1, at_a_time=self.at_a_time)
        for name in self.over:
            self._check_name(name)
        self._check_trials()

    def _check_name(self, name: str) -> None:
        """Raise unless a field of this name can vary."""
        table, dot, _ = name.partition(".")
        if name in _NOT_SWEPT:
            raise ValueError(f"{name} cannot be swept: {_NOT_SWEPT[name]}.")
        known = [setting.name for setting in fields(RunConfig) if setting.name not in (*_NOT_SWEPT, *_TABLES)]
        if name in known or (dot and table in _TABLES):
            return  # the options depend on the task and the cell of a point; `check` looks at them
        names = [*known, *self._options()]
        options = [option for option in names if option.endswith(f".{name}")]
        suggestion = did_you_mean(name, names) or "".join(f" Did you mean {option!r}?" for option in options[:1])
        raise ValueError(f"A run has no field {name!r}.{suggestion} There are {', '.join(names)}.")

    def _options(self) -> list[str]:
        """Return the names of all options of the task and of the cell."""
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
        ranges = [f"{name}={values.text}" for name, values in self.over.items() if not isinstance(values, Choices)]
        if ranges:
            raise ValueError(
                f"A grid needs lists of values, but {ranges[0]} is a range: use another method, such as random."
            )
        if self.trials is not None:
            raise ValueError("A grid runs every combination once: trials (`--trials`) are for the other methods.")

    @property
    def point_count(self) -> int:
        """Number of points."""
        if self.trials is not None:
            return self.trials
        return prod(len(values.probes) for values in self.over.values())

    @property
    def goal(self) -> Direction:
        """Direction in which the objective improves."""
        return self.direction or ("maximise" if "accuracy" in self.objective else "minimise")

    def points(self) -> Iterator[Point]:
        """Yield all points of a grid or of a random search. More trials continue the same random sequence."""
        if self.method == "grid":
            for number, values in enumerate(product(*(values.probes for values in self.over.values()))):
                yield Point(number, dict(zip(self.over, values, strict=True)))
            return
        for number in range(self.point_count):
            random = Random(f"{self.sampling_seed} {number}")
            yield Point(number, {name: values.draw(random) for name, values in self.over.items()})

    def config(self, point: Point, seed: int) -> RunConfig:
        """Return the configuration of a run. Options of the base are dropped where its task or its cell is replaced."""
        changes: dict[str, Any] = {}
        for name, value in point.values.items():
            table, dot, key = name.partition(".")
            if dot:
                changes.setdefault(table, {})[key] = value
            else:
                changes[name] = value
        base = vars(self.base)
        replaced = {table: {} for table, owner in _TABLES.items() if changes.get(owner, base[owner]) != base[owner]}
        return changed(replace(self.base, **replaced), changes, seed=seed)

    def probes(self) -> Iterator[Point]:
        """Yield points to check before the first run: all points, or for Optuna the ends of each range."""
        if not METHODS[self.method].sampler:
            yield from self.points()
            return
        first = {name: values.probes[0] for name, values in self.over.items()}
        for name, values in self.over.items():
            for value in values.probes:
                yield Point(0, {**first, name: value})

    def check(self, point: Point) -> None:
        """Raise if a point cannot be run: a value does not fit, or its task or its cell lacks an option."""
        config = self.config(point, self.seeds[0])
        build_task(config)
        checked_cell_options(config)

    def as_json(self) -> dict[str, Any]:
        """Return the content of `sweep.json`."""
        base = without_later_defaults(asdict(self.base))
        return {
            "mnemoscope": __version__,
            "method": self.method,
            "over": {
                name: list(values.values) if isinstance(values, Choices) else values.text
                for name, values in self.over.items()
            },
            "base": {name: value for name, value in base.items() if name not in (*_NOT_SWEPT, *self.over)},
            "trials": self.trials,
            "seeds": list(self.seeds),
            "objective": self.objective,
            "direction": self.goal,
            "sampling_seed": self.sampling_seed,
            "at_a_time": self.at_a_time,
        }

    def fixed_settings(self) -> tuple[str, ...]:
        """Return the entries of `sweep.json` that must not change when a sweep resumes.

        The number of trials may grow. Seeds and objective may change unless the proposals of Optuna depend on them.
        """
        adaptive = ("seeds", "objective", "direction", "at_a_time") if METHODS[self.method].sampler else ()
        seeded = () if self.method == "grid" else ("sampling_seed",)
        return ("method", "over", "base", *seeded, *adaptive)


def sweep_folder(name: str, root: str | Path) -> Path:
    """Return the folder of a sweep. Each run has a folder in it, named by the hash of its configuration."""
    return Path(root) / SUBFOLDER / name


def prepare_folder(sweep: Sweep, folder: Path, resume: bool, storage: str) -> None:
    """Write `sweep.json`; raise if the folder belongs to another sweep, or has runs and `resume` is not set.

    `storage` is the place where Optuna keeps its state; "" for methods without Optuna.
    """
    path, content = folder / "sweep.json", {**sweep.as_json(), "storage": storage}
    names = [entry.name for entry in folder.iterdir() if not entry.name.startswith(TEMPORARY_PREFIX)]
    if names and path.name not in names:
        raise FileExistsError(f"{folder} is not the folder of a sweep: it has no sweep.json. Choose another --name.")
    if names:
        before = read_json(path, SweepFile)
        newer = newer_version_note(before.get("mnemoscope", ""))
        if newer:
            raise ValueError(f"{path} was {newer}: nothing was changed. Use that version, or another --name.")
        changes = [name for name in (*sweep.fixed_settings(), "storage") if before.get(name) != content[name]]
        if len(names) > 1 and changes:
            differences = "; ".join(f"{name} is {before.get(name)} there, and {content[name]} here" for name in changes)
            raise ValueError(
                f"{folder} holds another sweep: {differences}. Choose another --name, or remove that folder."
            )
        if len(names) > 1 and not resume:
            raise FileExistsError(
                f"{folder} holds runs of this sweep. Keep them and run the rest with resume=True, "
                f"or choose another --name."
            )
    write_json(path, content)
