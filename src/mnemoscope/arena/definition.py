"""An arena as data: networks, tasks, seeds, what is matched, and the tuning budget. Imports no torch.

The file of an arena is TOML:

    name = "mine"
    seeds = [1, 2, 3]                       # of the table
    cards = ["parity"]                      # tasks of the memory cards; the first task by default

    [match]
    parameters = 100_000                    # or: state = 4_096

    [tuning]
    learning_rates = [1e-3, 3e-3, 1e-2]     # each trained once by every network on every task
    seed = 0                                # none of the seeds of the table

    [training]                              # settings of all runs, such as clip or schedule

    [[network]]
    name = "gru"
    cell = "gru"
    kind = "gated"

    [[task]]
    name = "parity"
    task = "parity"
    longer = [64, 256]
    seconds = 60                            # estimated time of a run
    settings = { steps = 2000 }

    [[empty]]
    networks = ["gru"]
    tasks = ["parity"]
    reason = "why these cells are not run"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypedDict, TypeVar, cast, get_type_hints

from mnemoscope.base.reading import read_toml
from mnemoscope.base.schema import checked
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.config.options import Option
from mnemoscope.config.run_config import RunConfig
from mnemoscope.config.validation import check_folder_name

ARENAS = Path(__file__).parent / "arenas"
"""Folder of the arenas that come with the package."""
NOT_SHARED = ("name", "task", "task_options", "cell", "cell_options", "hidden_size", "learning_rate", "seed")
"""Settings of a run that an arena determines itself, and that no table of settings may set."""
Part = TypeVar("Part")
_IN_FILES: dict[Any, Any] = {tuple[kind, ...]: list[kind] for kind in (int, float, str)}
"""Types that a file holds in another form."""


@dataclass(frozen=True)
class Entrant:
    """A network of an arena: a cell or an architecture of the registry, with its options."""

    name: str
    cell: str
    kind: str
    """Family of the network, by which the page filters: "gated", "orthogonal", "key-value matrix"."""
    cell_options: dict[str, Option] = field(default_factory=dict)
    multiple: int = 8
    """The size of the network is a multiple of this number, such as its heads."""
    orthogonal_ratio: float | None = None
    """Learning rate of orthogonal matrices relative to that of other weights; None: the same."""


@dataclass(frozen=True)
class ArenaTask:
    """A task of an arena, and how long it is trained."""

    name: str
    task: str
    seconds: float
    """Estimated time of one run."""
    task_options: dict[str, Option] = field(default_factory=dict)
    longer: tuple[int, ...] = ()
    """Spans, as `Task.at` takes them, at which a trained network is evaluated besides those of the task's tests."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the runs: steps, batch_size and so on."""


@dataclass(frozen=True)
class Match:
    """The size that all networks have: about as many trainable parameters, or numbers in the state."""

    parameters: int | None = None
    state: int | None = None
    tolerance: float = 0.1
    """Largest relative difference that is accepted."""

    def __post_init__(self) -> None:
        if (self.parameters is None) == (self.state is None):
            raise ValueError("[match] must set either parameters or state, such as parameters = 100_000.")

    @property
    def quantity(self) -> str:
        return "parameters" if self.state is None else "numbers in the state"

    @property
    def target(self) -> int:
        return self.parameters or self.state or 0


@dataclass(frozen=True)
class Tuning:
    """The tuning budget, the same for every network and task: one run for each learning rate."""

    learning_rates: tuple[float, ...]
    seed: int = 0
    """Seed of the tuning runs, and of the sequences on which learning rates are compared."""


@dataclass(frozen=True)
class EmptyCells:
    """Cells of the table that are not run, with the reason."""

    networks: tuple[str, ...]
    tasks: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Arena:
    """Everything that determines the table of an arena.

    >>> arena = read_arena("tiny")
    >>> len(arena.networks), len(arena.tasks), arena.seeds
    (3, 2, (1, 2))
    """

    name: str
    title: str
    seeds: tuple[int, ...]
    """Seeds of the runs of the table."""
    match: Match
    tuning: Tuning
    networks: tuple[Entrant, ...]
    tasks: tuple[ArenaTask, ...]
    training: dict[str, Any] = field(default_factory=dict)
    """Settings of all runs; those of a task come before them."""
    empty: tuple[EmptyCells, ...] = ()
    cards: tuple[str, ...] = ()
    """Tasks for which every network has a memory card; empty for the first task."""

    def __post_init__(self) -> None:
        for what, names in (("networks", _names(self.networks)), ("tasks", _names(self.tasks)), ("seeds", self.seeds)):
            if not names or len({*names}) < len(names):
                raise ValueError(f"An arena needs {what}, each once, but has {', '.join(map(str, names)) or 'none'}.")
        check_folder_name(self.name)
        if self.tuning.seed in self.seeds:
            raise ValueError(
                f"The seed {self.tuning.seed} of the tuning must not be a seed of the table, {self.seeds}: learning "
                f"rates would be chosen on the sequences that are reported."
            )
        if not self.tuning.learning_rates:
            raise ValueError("[tuning] must name at least one of learning_rates.")
        for settings in (self.training, *(task.settings for task in self.tasks)):
            _check_settings(settings)
        for cells in self.empty:
            _check_names("network", cells.networks, _names(self.networks))
            _check_names("task", cells.tasks, _names(self.tasks))
        if len({*self.cards}) < len(self.cards):
            raise ValueError(f"cards: Each task can be named once, but they are {', '.join(self.cards)}.")
        try:
            _check_names("task", self.cards, _names(self.tasks))
        except ValueError as error:
            raise ValueError(f"cards: {error}") from None

    def network(self, name: str) -> Entrant:
        """Return the network of this name."""
        _check_names("network", [name], _names(self.networks))
        return next(each for each in self.networks if each.name == name)

    def task(self, name: str) -> ArenaTask:
        """Return the task of this name."""
        _check_names("task", [name], _names(self.tasks))
        return next(each for each in self.tasks if each.name == name)

    def reason_empty(self, network: str, task: str) -> str:
        """Return why a cell of the table is not run; "" if it is."""
        found = (cells.reason for cells in self.empty if network in cells.networks and task in cells.tasks)
        return next(found, "")

    def part(self, networks: Iterable[str] = (), tasks: Iterable[str] = ()) -> Arena:
        """Return the arena with only these networks and tasks; all of them if none is named."""
        networks, tasks = tuple(networks) or _names(self.networks), tuple(tasks) or _names(self.tasks)
        empty = (
            EmptyCells(
                tuple(name for name in cells.networks if name in networks),
                tuple(name for name in cells.tasks if name in tasks),
                cells.reason,
            )
            for cells in self.empty
        )
        return replace(
            self,
            networks=tuple(map(self.network, networks)),
            tasks=tuple(map(self.task, tasks)),
            empty=tuple(cells for cells in empty if cells.networks and cells.tasks),
            cards=tuple(name for name in self.cards if name in tasks),
        )

    def on(self, device: str) -> Arena:
        """Return the arena with all runs on this device."""
        tasks = (replace(task, settings={**task.settings, "device": device}) for task in self.tasks)
        return replace(self, tasks=tuple(tasks), training={**self.training, "device": device})

    def to_dict(self) -> dict[str, Any]:
        """Return the tables of the arena's file as plain values; `from_dict` reads them."""
        content = asdict(self)
        content["network"], content["task"] = content.pop("networks"), content.pop("tasks")
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Arena:
        """Return the arena of the tables of a file; raise ValueError that names what is wrong."""
        tables = checked(_plain(content), _File)
        if unknown := sorted(content.keys() - _File.__annotations__.keys()):
            raise ValueError(f"{unknown[0]!r} is no entry of an arena. There are {', '.join(_File.__annotations__)}.")
        return cls(
            tables["name"],
            tables.get("title", tables["name"]),
            tuple(tables["seeds"]),
            _read_part(Match, tables["match"]),
            _read_part(Tuning, tables["tuning"]),
            tuple(_read_part(Entrant, table) for table in tables["network"]),
            tuple(_read_part(ArenaTask, table) for table in tables["task"]),
            dict(tables.get("training", {})),
            tuple(_read_part(EmptyCells, table) for table in tables.get("empty", [])),
            tuple(tables.get("cards", [])),
        )


class _OptionalTables(TypedDict, total=False):
    title: str
    cards: list[str]
    training: dict[str, Any]
    empty: list[dict[str, Any]]


class _File(_OptionalTables):
    """The tables of an arena's file."""

    name: str
    seeds: list[int]
    match: dict[str, Any]
    tuning: dict[str, Any]
    network: list[dict[str, Any]]
    task: list[dict[str, Any]]


def read_arena(source: str | Path) -> Arena:
    """Return the arena of a TOML file, or one that comes with the package, by its name.

    >>> read_arena("tinny")
    Traceback (most recent call last):
    ValueError: There is no arena 'tinny'. Did you mean 'tiny'? There are memory, tiny; or name a .toml file.
    """
    path, known = Path(source), arena_names()
    if path.suffix != ".toml":
        if str(source) not in known:
            hint = did_you_mean(str(source), known)
            raise ValueError(
                f"There is no arena {str(source)!r}.{hint} There are {', '.join(known)}; or name a .toml file."
            )
        path = ARENAS / f"{source}.toml"
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        return Arena.from_dict(read_toml(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def add_networks(arena: Arena, path: str | Path) -> Arena:
    """Return the arena with the networks of a TOML file, which has tables [[network]], and [[empty]] if cells are."""
    content = read_toml(path)
    if not {"network"} <= content.keys() <= {"network", "empty"}:
        found = ", ".join(content) or "nothing"
        raise ValueError(f"{path} must have tables [[network]], and may have tables [[empty]], but has {found}.")
    tables = arena.to_dict()
    try:
        return Arena.from_dict({**tables, **{name: [*tables[name], *content[name]] for name in content}})
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def arena_names() -> list[str]:
    """Return the names of the arenas that come with the package."""
    return sorted(path.stem for path in ARENAS.glob("*.toml"))


def _read_part(kind: type[Part], table: Mapping[str, Any]) -> Part:
    """Return a part of an arena; lists become tuples. An unknown or missing field is an error that names the part."""
    known = [each.name for each in fields(cast("Any", kind))]
    written = "network" if kind is Entrant else kind.__name__.lower().removeprefix("arena")
    where = f"[{written}] {table.get('name', '')}".strip()
    for name in table:
        if name not in known:
            raise ValueError(
                f"{where}: there is no field {name!r}.{did_you_mean(name, known)} There are {', '.join(known)}."
            )
    needed = [each.name for each in fields(cast("Any", kind)) if each.default is each.default_factory is MISSING]
    if missing := [name for name in needed if name not in table]:
        raise ValueError(f"{where}: the field {missing[0]!r} is missing; it needs {', '.join(needed)}.")
    hints = get_type_hints(kind)
    for name, value in table.items():
        schema: Any = _IN_FILES.get(hints[name], hints[name])
        checked(value, schema, f"{name} of {where}")
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{where}: {str(error).partition('__init__() ')[2] or error}.") from None


def _check_settings(settings: Mapping[str, Any]) -> None:
    known = [each.name for each in fields(RunConfig) if each.name not in NOT_SHARED]
    for name in settings:
        if name in NOT_SHARED:
            raise ValueError(f"The arena determines {name!r} of its runs; remove it from the settings.")
        if name not in known:
            raise ValueError(
                f"{name!r} is no setting of a run.{did_you_mean(name, known)} There are {', '.join(known)}."
            )


def _check_names(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = tuple(known)
    for name in names:
        if name not in known:
            raise ValueError(f"The arena has no {kind} {name!r}.{did_you_mean(name, known)} It has {', '.join(known)}.")


def _names(parts: Iterable[Entrant | ArenaTask]) -> tuple[str, ...]:
    return tuple(part.name for part in parts)


def _plain(value: Any) -> Any:
    """Return the value with lists in place of tuples, as a file has them."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value
