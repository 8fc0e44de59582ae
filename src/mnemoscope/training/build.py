"""Task and model of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from mnemoscope import registry
from mnemoscope.cells import Cell, Model, SequenceDecoder
from mnemoscope.config.options import Option, checked_options
from mnemoscope.config.run_config import RunConfig
from mnemoscope.relational import RelationalModel, SingleStepModel
from mnemoscope.tasks import RelationalSequence, Task, TokenTask
from mnemoscope.training.seeding import seeded


def build_task(config: RunConfig) -> Task:
    """Return the task of a configuration.

    >>> build_task(RunConfig("try", task="copy", task_options={"delay": 30}))
    Copy(delay=30, symbols=10, alphabet=8, curriculum='')
    """
    return task_named(config.task, config.task_options)


def task_named(name: str, options: Mapping[str, Option] | None = None) -> Task:
    """Return a registered task with options; a relational task is wrapped in a `RelationalSequence`.

    >>> task_named("rmts", {"m": 50}).relational
    RMTS(m=50, shape_seed=0, spurious='nothing')
    """
    task_class = registry.tasks.load(name)
    task = task_class(**checked_options(task_class, f"task {name!r}", options or {}))
    return RelationalSequence(task) if registry.is_relational(name) else task


def build_model(config: RunConfig, task: Task) -> Model:
    """Return the model of a configuration with its initial weights, on the CPU. They depend on the seed alone.

    A cell that the registry marks as having a built-in readout receives the size of the task's outputs. The tokens of a
    `TokenTask` are looked up in an embedding of `config.embedding` or else `config.hidden_size` features. The readout
    of a task that is `decoded` is a `SequenceDecoder`; a built-in readout before it has `config.hidden_size` outputs.
    For a relational task, the model is a `SingleStepModel` around a relational network.

    >>> config = RunConfig("try", task="flipflop", cell="gru", hidden_size=16)
    >>> build_model(config, build_task(config)).readout
    Linear(in_features=16, out_features=3, bias=True)
    """
    with seeded("initial weights", config.seed):
        return _solver(config, task) if isinstance(task, RelationalSequence) else _model(config, task)


def checked_cell_options(config: RunConfig) -> dict[str, Any]:
    """Return the options of the configuration's cell or relational network; raise with the known ones if one is wrong.

    The sizes that `build_model` passes to a cell are not options.
    """
    learners = registry.learners(config.task)
    sizes = () if registry.is_relational(config.task) else ("input_size", "hidden_size", *_readout_size(config))
    return checked_options(learners.load(config.cell), f"{learners.kind} {config.cell!r}", config.cell_options, sizes)


def _readout_size(config: RunConfig) -> tuple[str, ...]:
    """Return the argument that sizes a built-in readout, if the cell has one."""
    return ("output_size",) if registry.OWN_READOUT in registry.cells[config.cell].tags else ()


def _model(config: RunConfig, task: Task) -> Model:
    cell_class, embedding = registry.cells.load(config.cell), config.embedding
    if isinstance(task, TokenTask) and embedding is None:
        embedding = config.hidden_size
    sizes = {
        "input_size": task.input_size if embedding is None else embedding,
        "hidden_size": config.hidden_size,
        **dict.fromkeys(_readout_size(config), config.hidden_size if task.decoded else task.output_size),
    }
    if task.decoded and config.truncate is not None:
        raise ValueError(
            f"{config.task} decodes a sequence from its last step, which needs whole sequences: omit truncate."
        )
    cell: Cell = cell_class(**sizes, **checked_cell_options(config))
    encode = None if embedding is None else _encoding(task, embedding)
    model = Model(cell, task.output_size, encode, config.readout_bias, decode=task.decoded)
    if config.fixed_readout is not None:
        _fix_readout(model, config.fixed_readout)
    return model


def _encoding(task: Task, features: int) -> nn.Module:
    """Return the embedding of tokens, or a linear one of other inputs."""
    if isinstance(task, TokenTask):
        return nn.Embedding(task.input_size, features)
    return nn.Linear(task.input_size, features, bias=False)


def _fix_readout(model: Model, deviation: float) -> None:
    """Make the weights of the readout constant: w / units with w ~ N(0, deviation^2)."""
    if not isinstance(model.readout, nn.Linear):
        other = "decodes a sequence" if isinstance(model.readout, SequenceDecoder) else "has a built-in readout"
        name = type(model.cell).__name__
        raise ValueError(f"fixed_readout is for the linear readout of a model, but this {name} {other}.")
    nn.init.normal_(model.readout.weight, std=deviation / model.readout.in_features)
    model.readout.weight.requires_grad_(False)


def _solver(config: RunConfig, task: RelationalSequence) -> SingleStepModel:
    network_class = registry.networks.load(config.cell)
    network: RelationalModel = network_class(task.relational, **checked_cell_options(config))
    return SingleStepModel(network)
