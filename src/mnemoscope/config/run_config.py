"""Everything that determines a training run, as one frozen dataclass and one TOML file. Imports no torch."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any, Literal, get_type_hints

from mnemoscope import registry
from mnemoscope.config.options import Option, changed_options, fit

_BESIDE_THE_RESULT = ("name", "threads", "checkpoint_every", "log")
"""Fields that do not enter the hash."""
_JOINED_LATER = ("readout_bias", "curriculum_score", "momentum", "leave_out", "log")
"""Fields that enter it where they are not at their default: runs from before they came keep their hash."""
_OF_CELLS = ("hidden_size", "embedding", "readout_bias", "truncate")
"""Fields without a meaning where no cell is trained."""
ENDLESS_EVALUATION = 4
"""Batches of an evaluation where there is no whole of them."""

Log = Literal["tensorboard", "wandb"]


_checked_later: ContextVar[bool] = ContextVar("checked_later", default=False)


@contextmanager
def checked_later() -> Iterator[None]:
    """Configurations made meanwhile are not checked until they are replaced: for parsers with errors of their own."""
    token = _checked_later.set(True)
    try:
        yield
    finally:
        _checked_later.reset(token)


@dataclass(frozen=True)
class RunConfig:
    """A training run: what is learned, by what, how, and from which seed."""

    name: str
    """Name of the run; its folder is <root>/<name>/<hash>."""
    task: str
    """Task to learn; `mnemoscope list tasks` shows them."""
    task_options: dict[str, Option] = field(default_factory=dict)
    """Options of the task, over those of the preset, such as bits 3 length 64."""
    cell: str = "elman"
    """Recurrent cell; `mnemoscope list cells` shows them. Of a relational task, the network: `list networks`."""
    cell_options: dict[str, Option] = field(default_factory=dict)
    """Options of the cell or network, over those of the preset, such as nonlinearity relu."""
    hidden_size: int = 64
    """Number of units of the cell; of matntm, rows and columns of its state. A relational network has its own sizes."""
    embedding: int | None = None
    """Size of a learned linear embedding of the inputs before the cell; None: the cell sees the inputs themselves."""
    readout_bias: bool = True
    """Whether the linear readout has a bias."""
    optimiser: Literal["adam", "adamw", "rmsprop"] = "adam"
    """Optimiser; weight decay is decoupled in adamw, a penalty in the others."""
    learning_rate: float = 1e-3
    """Learning rate at the first step."""
    orthogonal_learning_rate: float | None = None
    """Learning rate of orthogonal and unitary matrices, which need a lower one; None: as the rest."""
    smoothing: float | None = None
    """Smoothing of the squared gradients in rmsprop (its alpha), below 1; None: 0.99."""
    momentum: float = 0.0
    """Momentum of rmsprop, below 1."""
    weight_decay: float = 0.0
    """Weight decay."""
    schedule: Literal["constant", "cosine", "plateau"] = "constant"
    """Learning rate over time; cosine ends at 0 after the last step, plateau halves it after every evaluation that
    gives no new lowest loss."""
    steps: int = 1000
    """Optimiser steps, one batch each."""
    batch_size: int = 64
    """Sequences in a batch."""
    clip: float | None = None
    """Largest norm of the gradient, longer ones are shortened to it; None: off."""
    leave_out: int = 0
    """Batches in a row that are left out, and counted, where the loss or its gradient is not finite; one more stops the
    run. A long backward pass may leave the range of float32 once in a while; 0: the first one stops the run."""
    truncate: int | None = None
    """Steps through which gradients flow back (truncated BPTT); None: the whole sequence."""
    curriculum_score: float = 0.96
    """Accuracy on a training batch with which the next stage of the task's curriculum begins, where it has one."""
    evaluate_every: int = 100
    """Optimiser steps between evaluations."""
    evaluate_batches: int | None = None
    """Batches of an evaluation, the same ones each time; None: the whole validation split, or 4 of an endless task."""
    checkpoint_every: int = 100
    """Optimiser steps between checkpoints."""
    target_loss: float | None = None
    """Stop once the evaluation loss is at or below this (and target_score is reached, if given)."""
    target_score: float | None = None
    """Stop once the evaluation accuracy is at or above this (and target_loss is reached, if given)."""
    patience: int | None = None
    """Stop after this many evaluations without a new lowest loss; None: never."""
    seed: int = 0
    """Seed of the initial weights and of the batches."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where to train."""
    threads: int | None = None
    """CPU threads; None: torch's choice. Not part of the hash."""
    log: Sequence[Log] = ()
    """Where to write the metrics beside metrics.jsonl: tensorboard, wandb (offline, unless WANDB_MODE says otherwise).
    Not part of the hash."""

    def __post_init__(self) -> None:
        if _checked_later.get():
            return
        for name, annotation in _types().items():
            try:
                object.__setattr__(self, name, fit(getattr(self, name), annotation))
            except TypeError as error:
                raise ValueError(f"{name} must be {error}.") from None
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.name):
            raise ValueError(
                f"name is the name of a folder: letters, digits, dots, hyphens and underscores, but is {self.name!r}."
            )
        if self.task not in registry.tasks:
            raise ValueError(f"task is {self.task!r}. {_unknown(self.task, registry.tasks.entries, 'registered task')}")
        self._check_learner()
        for name in ("hidden_size", "steps", "batch_size", "evaluate_every", "evaluate_batches", "checkpoint_every"):
            self._check(name, 1)
        for name in ("embedding", "truncate", "patience", "threads"):
            self._check(name, 1)
        for name in ("weight_decay", "leave_out", "seed", "target_loss", "target_score", "curriculum_score"):
            self._check(name, 0)
        for name in ("smoothing", "momentum"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, but is {value}.")
        for name in ("learning_rate", "orthogonal_learning_rate", "clip"):
            self._check(name, 0, above=True)

    def _check_learner(self) -> None:
        """Whether what is to learn the task is of the kind that can, and is told nothing that it cannot heed."""
        learners, relational = registry.learners(self.task), registry.is_relational(self.task)
        other = registry.cells if relational else registry.networks
        if self.cell not in learners and self.cell in other:
            own = [entry.name for entry in registry.tasks if registry.is_relational(entry.name) != relational]
            raise ValueError(
                f"cell is {self.cell!r}, a {other.kind}, which learns the tasks {', '.join(own)}. The task "
                f"{self.task!r} is learned by a {learners.kind}: {', '.join(learners.entries)}."
            )
        if self.cell not in learners:
            raise ValueError(
                f"cell is {self.cell!r}. {_unknown(self.cell, learners.entries, f'registered {learners.kind}')}"
            )
        for each in fields(self):
            if relational and each.name in _OF_CELLS and getattr(self, each.name) != each.default:
                raise ValueError(
                    f"{each.name} is for recurrent cells, but the task {self.task!r} is relational: leave it at "
                    f"{each.default}. What can be set of a relational network are its options (cell_options)."
                )

    def _check(self, name: str, low: int, above: bool = False) -> None:
        value = getattr(self, name)
        if value is not None and not (low <= value < inf and (value > low or not above)):
            raise ValueError(f"{name} must be {'above' if above else 'at least'} {low} and finite, but is {value}.")

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits of what determines the result: all but the name, threads, checkpoint_every, log, and
        where the data of a task lie.

        An option that is written out with its default value is as good as left out. The defaults stand with the task
        and the cell, so that asking for the hash imports torch.
        """
        content = {name: value for name, value in self._given().items() if name not in _BESIDE_THE_RESULT}
        content = without_later_defaults(content)
        task = registry.tasks.load(self.task)
        if not getattr(task, "finite", False):
            content.setdefault("evaluate_batches", ENDLESS_EVALUATION)
        beside = getattr(task, "beside_the_result", ())
        content["task_options"] = changed_options(
            task, {name: value for name, value in self.task_options.items() if name not in beside}
        )
        content["cell_options"] = changed_options(registry.learners(self.task).load(self.cell), self.cell_options)
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]

    def folder(self, root: str | Path = "runs") -> Path:
        """Where the run lives: `<root>/<name>/<hash>`.

        >>> config = RunConfig(name="try", task="flipflop", task_options={"bits": 2}, hidden_size=16, seed=3)
        >>> print(config.to_toml().splitlines()[0], config.folder("runs").parent.as_posix())
        name = "try" runs/try
        """
        return Path(root) / self.name / self.hash

    def to_toml(self) -> str:
        """The configuration as TOML, which has no None: what is not there is None."""
        given = self._given()
        tables = {name: given.pop(name) for name in ("task_options", "cell_options")}
        lines = [f"{name} = {_toml(value)}" for name, value in given.items()]
        for name, table in tables.items():
            lines += ["", f"[{name}]", *(f"{_toml_key(key)} = {_toml(value)}" for key, value in table.items())]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, path: str | Path) -> RunConfig:
        """Read a configuration; what is not in the file has its default."""
        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not a TOML file: {error}.") from error
        for key in content:
            if key not in _types():
                raise ValueError(f"{path} sets {key!r}. {_unknown(key, _types(), 'setting of a run')}")
        missing = [name for name in ("name", "task") if name not in content]
        if missing:
            raise ValueError(f"{path} must set {' and '.join(missing)}.")
        try:
            return cls(**with_tuples(content))
        except ValueError as error:
            raise ValueError(f"In {path}: {error}") from error

    def _given(self) -> dict[str, Any]:
        without = _OF_CELLS if registry.is_relational(self.task) else ()
        return {name: value for name, value in asdict(self).items() if value not in (None, ()) and name not in without}


def with_tuples(content: Mapping[str, Any]) -> dict[str, Any]:
    """What a TOML or JSON file holds of a configuration, its lists as the tuples that they were."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}


def changed(config: RunConfig, changes: Mapping[str, Any], **more: Any) -> RunConfig:
    """The configuration with changes; options are added to those that are there."""
    tables = {
        name: {**getattr(config, name), **changes[name]} for name in ("task_options", "cell_options") if name in changes
    }
    return replace(config, **{**changes, **tables, **more})


def without_later_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run but for fields that joined later and are at their default."""
    later = {each.name: each.default for each in fields(RunConfig) if each.name in _JOINED_LATER}
    read = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}  # from JSON
    return {name: value for name, value in settings.items() if name not in later or read[name] != later[name]}


def _unknown(name: str, known: Mapping[str, Any], what: str) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f" {registry.HINT}" if what.startswith("registered") and not near else ""
    return f"That is no {what}{f'; did you mean {near[0]!r}?' if near else '.'} There are {', '.join(known)}.{hint}"


@cache  # most of the time that a configuration takes
def _types() -> dict[str, Any]:
    hints = get_type_hints(RunConfig)
    return {each.name: hints[each.name] for each in fields(RunConfig)}


def _toml(value: Option | tuple[Option, ...]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):  # JSON's escapes are TOML's, but for DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)


PRESETS: dict[str, RunConfig] = {
    # 7 s (elman) and 20 s (gru) on one core. The penalty on the weights makes the memories attract: without it a GRU
    # drifts in long silences, and its fixed points are near bifurcations; with it seeds 0 to 4 have the 27 of a cube.
    "flipflop": RunConfig(
        name="flipflop",
        task="flipflop",
        task_options={"bits": 3, "length": 64, "rate": 0.1},
        learning_rate=5e-3,
        weight_decay=3e-4,
        schedule="cosine",
        steps=1000,
        batch_size=32,
        clip=1.0,
        evaluate_every=50,
        threads=1,
    ),
    # 40 s: all symbols right.
    "copy": RunConfig(
        name="copy",
        task="copy",
        task_options={"delay": 20, "symbols": 5, "alphabet": 8},
        cell="gru",
        hidden_size=128,
        learning_rate=5e-3,
        schedule="cosine",
        steps=3000,
        batch_size=32,
        clip=1.0,
        threads=1,
    ),
    # 27 s: 95 to 99% of the sums right to 0.04.
    "adding": RunConfig(
        name="adding",
        task="adding",
        task_options={"length": 50},
        cell="gru",
        learning_rate=5e-3,
        schedule="cosine",
        steps=1500,
        clip=1.0,
        threads=1,
    ),
    # 9 minutes on a busy core: 90% of the test digits right, after three epochs, with four pixels a step.
    "psmnist": RunConfig(
        name="psmnist",
        task="psmnist",
        task_options={"group": 4},
        cell="gru",
        hidden_size=128,
        learning_rate=5e-3,
        schedule="cosine",
        steps=1500,
        batch_size=100,
        clip=1.0,
        evaluate_batches=10,
        threads=1,
    ),
    # 54 s: 2.07 bits per character of the test text (2.12 with seed 1), within the first epoch. No GRU: one of this
    # size, begun at zero in unlucky places of the text, did not find back (5 of 32 test streams at 12 nats).
    "ptb": RunConfig(
        name="ptb",
        task="ptb",
        task_options={"length": 150},
        cell="lstm",
        hidden_size=128,
        learning_rate=1e-2,
        schedule="cosine",
        steps=1000,
        batch_size=32,
        clip=1.0,
        evaluate_batches=10,
        threads=1,
    ),
    # 25 s. Seeds 0, 1, 2: 100%, 99.999% and 100% of the bits right at horizon 200, where loss is 0.005,
    # 0.013 and 0.018. The last stage of the curriculum is reached within 200 steps.
    "repeat-copy": RunConfig(
        name="repeat-copy",
        task="repeat-copy",
        task_options={"variables": 5, "size": 4, "horizon": 100, "curriculum": "10 20 40 60"},
        cell_options={"bias": False},
        readout_bias=False,
        learning_rate=3e-3,
        schedule="cosine",
        steps=3000,
        clip=1.0,
        threads=1,
    ),
    # 25 s. Seeds 0, 1, 2: 100% of the bits right at horizon 200, where loss is 0.0006.
    "compose-copy": RunConfig(
        name="compose-copy",
        task="compose-copy",
        task_options={"variables": 5, "size": 5, "horizon": 100, "curriculum": "10 20 40 60"},
        cell_options={"bias": False},
        hidden_size=75,
        readout_bias=False,
        learning_rate=3e-3,
        schedule="cosine",
        steps=3000,
        clip=1.0,
        threads=1,
    ),
    # 1 to 8 minutes of one core: no wrong bit at lengths 1 to 20 with seeds 0 to 4 (studies/matrix_copy.py).
    # 15 is the side of a state: three layers of 15 x 15, 4,121 parameters, as published.
    "matntm": RunConfig(
        name="matntm",
        task="matrix-copy",
        task_options={"curriculum": "2 4 7 12", "mixed": True},
        cell="matntm",
        hidden_size=15,
        optimiser="rmsprop",
        learning_rate=5e-4,
        momentum=0.9,
        clip=10.0,
        steps=10_000,
        batch_size=16,
        curriculum_score=0.98,
        target_loss=1e-3,
        target_score=1.0,
        threads=1,
    ),
    # 2 to 3 minutes: no wrong bit at lengths 1 to 20 with seeds 0 to 4 (studies/ntm_copy.py); sizes of Graves et al.
    "ntm": RunConfig(
        name="ntm",
        task="bit-copy",
        task_options={"mixed": True},
        cell="ntm",
        hidden_size=100,
        optimiser="rmsprop",
        learning_rate=3e-4,
        momentum=0.9,
        clip=10.0,
        steps=4000,
        batch_size=16,
        target_loss=1e-3,
        target_score=1.0,
        threads=1,
    ),
    # 30 s of one core: no wrong bit at lengths 1 to 5 with seed 0, where loss is 0.0003.
    "bit-copy": RunConfig(
        name="bit-copy",
        task="bit-copy",
        task_options={"longest": 5, "mixed": True},
        cell="lstm",
        hidden_size=128,
        learning_rate=1e-2,
        schedule="cosine",
        steps=3000,
        clip=1.0,
        batch_size=64,
        threads=1,
    ),
    # 32 s of one core: no wrong bit with seed 0, of lists of two or three vectors, where loss is 0.0012.
    "associative-recall": RunConfig(
        name="associative-recall",
        task="associative-recall",
        task_options={"item_length": 1, "most": 3, "mixed": True},
        cell="lstm",
        hidden_size=128,
        learning_rate=5e-3,
        schedule="cosine",
        steps=3000,
        clip=1.0,
        batch_size=64,
        threads=1,
    ),
    # The recipe of the source for four of its relational tasks, `--task identity-rules --cell esbn`; others have other
    # batches.
    "rmts": RunConfig(
        name="rmts",
        task="rmts",
        cell="corelnet",
        learning_rate=5e-4,
        steps=5000,
        batch_size=96,
        threads=1,
    ),
}
