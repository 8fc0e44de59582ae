"""The configuration of a training run, as a frozen dataclass and a TOML file. Imports no torch."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_type_hints

from mnemoscope import registry
from mnemoscope.base.reading import read_toml
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.config.hashing import run_hash
from mnemoscope.config.options import Option, fit
from mnemoscope.config.toml_format import format_toml, with_tuples
from mnemoscope.config.validation import CELL_SETTINGS, check_settings

ENDLESS_EVALUATION = 4
"""Batches of an evaluation of a task whose data have no end."""
_OPTIONS = ("task_options", "cell_options")
"""Settings that are tables."""

Log = Literal["tensorboard", "wandb"]


_deferred: ContextVar[bool] = ContextVar("deferred", default=False)


@contextmanager
def defer_validation() -> Generator[None]:
    """Do not check configurations built inside this context.

    The parser of the command line builds configurations from parts and would hide our error messages. Later,
    `dataclasses.replace` checks the result.
    """
    token = _deferred.set(True)
    try:
        yield
    finally:
        _deferred.reset(token)


@dataclass(frozen=True)
class RunConfig:
    """A training run: the task, the network that learns it, the optimiser, and the seed."""

    name: str
    """Name of the run. Its folder is <root>/<name>/<hash>."""
    task: str
    """Task to learn. `mnemoscope list tasks` shows all tasks."""
    task_options: dict[str, Option] = field(default_factory=dict)
    """Options of the task in pairs of name and value, such as bits 3 length 64. They override those of the preset."""
    cell: str = "elman"
    """Recurrent cell; `mnemoscope list cells` shows all cells. For a relational task, the relational network;
    `mnemoscope list networks` shows them."""
    cell_options: dict[str, Option] = field(default_factory=dict)
    """Options of the cell or network in pairs of name and value, such as nonlinearity relu. They override those of the
    preset."""
    hidden_size: int = 64
    """Number of hidden units. For matntm, the rows and columns of its state. Relational networks set their sizes by
    options."""
    embedding: int | None = None
    """Size of a learned linear embedding of the inputs; None: the cell receives the inputs unchanged. Tokens have an
    embedding in any case, by default of hidden_size."""
    readout_bias: bool = True
    """Whether the linear readout has a bias."""
    fixed_readout: float | None = None
    """Standard deviation of w in a constant linear readout with the weights w / units, so that the units must learn the
    task; 4 in Dubreuil et al. 2022. None: the readout is trained."""
    optimiser: Literal["adam", "adamw", "rmsprop"] = "adam"
    """Optimiser. Weight decay is decoupled in adamw and an L2 penalty in the others."""
    learning_rate: float = 1e-3
    """Initial learning rate."""
    orthogonal_learning_rate: float | None = None
    """Learning rate of orthogonal and unitary matrices, which often need a lower one; None: learning_rate."""
    smoothing: float | None = None
    """Decay of the running mean of squared gradients in rmsprop (its alpha), below 1; None: 0.99."""
    momentum: float = 0.0
    """Momentum of rmsprop, below 1."""
    weight_decay: float = 0.0
    """Weight decay."""
    schedule: Literal["constant", "cosine", "plateau"] = "constant"
    """Learning rate over time. cosine falls to 0 at the last step; plateau halves the rate after every evaluation
    without a new lowest loss."""
    steps: int = 1000
    """Number of optimiser steps, one batch each."""
    batch_size: int = 64
    """Number of sequences per batch."""
    clip: float | None = None
    """Largest norm of the gradient; a longer gradient is scaled down to it. None: no clipping."""
    leave_out: int = 0
    """Number of consecutive batches with a loss or gradient that is not finite which are skipped and counted; one more
    stops the run. A long backward pass can leave the range of float32 now and then. 0: the first one stops the run."""
    truncate: int | None = None
    """Number of time steps through which gradients flow back (truncated BPTT); None: the whole sequence."""
    curriculum_score: float = 0.96
    """Accuracy on a training batch at which the next stage of the curriculum begins, for tasks with a curriculum."""
    evaluate_every: int = 100
    """Number of optimiser steps between evaluations."""
    evaluate_batches: int | None = None
    """Number of batches per evaluation, the same ones each time; None: the whole validation split, or 4 batches of an
    endless task."""
    checkpoint_every: int = 100
    """Number of optimiser steps between checkpoints."""
    target_loss: float | None = None
    """Stop when the evaluation loss is at or below this value (and target_score is reached, if given)."""
    target_score: float | None = None
    """Stop when the evaluation accuracy is at or above this value (and target_loss is reached, if given)."""
    patience: int | None = None
    """Stop after this number of evaluations without a new lowest loss; None: never."""
    seed: int = 0
    """Seed of the initial weights and of the batches."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device to train on."""
    threads: int | None = None
    """Number of CPU threads; None: the default of torch. Not part of the hash."""
    cuda_graphs: bool | None = None
    """Whether to replay the steps on a GPU as CUDA graphs, which changes no number. None: where it is possible. true:
    also warn, with the reason, where it is not. Not part of the hash."""
    log: Sequence[Log] = ()
    """Loggers in addition to metrics.jsonl: tensorboard, wandb (offline unless WANDB_MODE is set). Not part of the
    hash."""

    def __post_init__(self) -> None:
        if _deferred.get():
            return
        for name, annotation in _types().items():
            try:
                object.__setattr__(self, name, fit(getattr(self, name), annotation))
            except TypeError as error:
                raise ValueError(f"{name} must be {error}.") from None
        check_settings(vars(self), _defaults())

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits of the settings that determine the result; see `hashing.run_hash`. Imports torch."""
        return run_hash(self._settings(), ENDLESS_EVALUATION)

    def folder(self, root: str | Path = "runs") -> Path:
        """Return the folder of the run: `<root>/<name>/<hash>`.

        >>> config = RunConfig(name="try", task="flipflop", task_options={"bits": 2}, hidden_size=16, seed=3)
        >>> print(config.to_toml().splitlines()[0], config.folder("runs").parent.as_posix())
        name = "try" runs/try
        """
        return Path(root) / self.name / self.hash

    def to_toml(self) -> str:
        """Return the configuration as TOML text. TOML has no None: a setting that is None is omitted."""
        return format_toml(self._settings())

    @classmethod
    def from_toml(cls, path: str | Path) -> RunConfig:
        """Read a configuration; a setting that the file omits has its default."""
        content = read_toml(path)
        for name in content:
            if name not in _types():
                raise ValueError(
                    f"{path} sets {name!r}, which is no setting of a run.{did_you_mean(name, _types())} There are "
                    f"{', '.join(_types())}."
                )
        missing = [name for name in ("name", "task") if name not in content]
        if missing:
            raise ValueError(f"{path} must set {' and '.join(missing)}.")
        try:
            return cls(**with_tuples(content))
        except ValueError as error:
            raise ValueError(f"In {path}: {error}") from error

    def _settings(self) -> dict[str, Any]:
        """Return the settings that are neither None nor empty tuples nor without meaning for the task."""
        ignored = CELL_SETTINGS if registry.is_relational(self.task) else ()
        return {name: value for name, value in asdict(self).items() if value not in (None, ()) and name not in ignored}


def changed(config: RunConfig, *changes: Mapping[str, Any], **more: Any) -> RunConfig:
    """Return the configuration with changes, of which later ones win; options are merged, not replaced."""
    settings: dict[str, Any] = {}
    for several in changes:
        tables = {name: settings.get(name, getattr(config, name)) for name in _OPTIONS if name in several}
        settings |= {**several, **{name: {**table, **several[name]} for name, table in tables.items()}}
    return replace(config, **{**settings, **more})


@cache  # the type hints take most of the time of building a configuration
def _types() -> dict[str, Any]:
    """Return the types of the settings by name."""
    hints = get_type_hints(RunConfig)
    return {each.name: hints[each.name] for each in fields(RunConfig)}


@cache
def _defaults() -> dict[str, Any]:
    """Return the default of each setting, or MISSING for a required setting."""
    return {each.name: each.default for each in fields(RunConfig)}
