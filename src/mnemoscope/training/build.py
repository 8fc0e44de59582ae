"""The task and the model that a configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from mnemoscope import registry
from mnemoscope.cells import Cell, Model
from mnemoscope.config.options import Option, checked_options
from mnemoscope.config.run_config import RunConfig
from mnemoscope.relational import RelationalModel, Solver
from mnemoscope.tasks import Problems, Task
from mnemoscope.training.seeding import seeded


def build_task(config: RunConfig) -> Task:
    """The task of a configuration.

    >>> build_task(RunConfig("try", task="copy", task_options={"delay": 30}))
    Copy(delay=30, symbols=10, alphabet=8, curriculum='')
    """
    return task_named(config.task, config.task_options)


def task_named(name: str, options: Mapping[str, Option] | None = None) -> Task:
    """A registered task with options; a relational one in the form of a task.

    >>> task_named("rmts", {"m": 50}).of
    RMTS(m=50, shape_seed=0, spurious='nothing')
    """
    target = registry.tasks.load(name)
    task = target(**checked_options(target, f"task {name!r}", options or {}))
    return Problems(task) if registry.is_relational(name) else task


def build_model(config: RunConfig, task: Task) -> Model:
    """The model of a configuration with its initial weights, on the CPU; the seed decides, global state does not.

    Cells that the registry says to have a readout of their own are given the size of the task's outputs. Of a
    relational task it is a relational network as a model, a `Solver`.

    >>> config = RunConfig("try", task="flipflop", cell="gru", hidden_size=16)
    >>> build_model(config, build_task(config)).readout
    Linear(in_features=16, out_features=3, bias=True)
    """
    with seeded("initial weights", config.seed):
        return _solver(config, task) if isinstance(task, Problems) else _model(config, task)


def checked_cell_options(config: RunConfig) -> dict[str, Any]:
    """The options of a configuration's cell or relational network as it wants them, or an error that says which there
    are. The sizes that a cell is given are not among them.
    """
    learners = registry.learners(config.task)
    given = () if registry.is_relational(config.task) else ("input_size", "hidden_size", *_own_readout(config))
    return checked_options(learners.load(config.cell), f"{learners.kind} {config.cell!r}", config.cell_options, given)


def _own_readout(config: RunConfig) -> tuple[str, ...]:
    return ("output_size",) if registry.OWN_READOUT in registry.cells[config.cell].tags else ()


def _model(config: RunConfig, task: Task) -> Model:
    target = registry.cells.load(config.cell)
    given = {"input_size": task.input_size if config.embedding is None else config.embedding,
             "hidden_size": config.hidden_size}  # fmt: skip
    given |= dict.fromkeys(_own_readout(config), task.output_size)
    cell: Cell = target(**given, **checked_cell_options(config))
    encode = None if config.embedding is None else nn.Linear(task.input_size, given["input_size"], bias=False)
    return Model(cell, task.output_size, encode, config.readout_bias)


def _solver(config: RunConfig, task: Problems) -> Solver:
    target = registry.networks.load(config.cell)
    network: RelationalModel = target(task.of, **checked_cell_options(config))
    return Solver(network)
