"""The task and the model that a configuration names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from types import NoneType
from typing import Any

from torch import nn

from mnemoscope import registry
from mnemoscope.cells import Cell, Model
from mnemoscope.config import RunConfig, fit, plain
from mnemoscope.tasks import Task
from mnemoscope.training.seeding import seeded


def build_task(config: RunConfig) -> Task:
    """The task of a configuration.

    >>> build_task(RunConfig("try", task="copy", task_options={"delay": 30}))
    Copy(delay=30, symbols=10, alphabet=8, curriculum='')
    """
    target = registry.tasks.load(config.task)
    return target(**_checked(target, f"task {config.task!r}", config.task_options))


def build_model(config: RunConfig, task: Task) -> Model:
    """The model of a configuration with its initial weights, on the CPU; the seed decides, global state does not.

    Cells that the registry says to have a readout of their own are given the size of the task's outputs.

    >>> config = RunConfig("try", task="flipflop", cell="gru", hidden_size=16)
    >>> build_model(config, build_task(config)).readout
    Linear(in_features=16, out_features=3, bias=True)
    """
    target = registry.cells.load(config.cell)
    given = {"input_size": task.input_size if config.embedding is None else config.embedding,
             "hidden_size": config.hidden_size}  # fmt: skip
    if registry.OWN_READOUT in registry.cells[config.cell].tags:
        given["output_size"] = task.output_size
    options = _checked(target, f"cell {config.cell!r}", config.cell_options, given)
    with seeded("initial weights", config.seed):
        cell: Cell = target(**given, **options)
        encode = None if config.embedding is None else nn.Linear(task.input_size, given["input_size"], bias=False)
        return Model(cell, task.output_size, encode, config.readout_bias)


def _checked(
    target: Callable[..., Any], what: str, options: Mapping[str, Any], given: Iterable[str] = ()
) -> dict[str, Any]:
    """The options as `target` wants them, or an error that says which there are."""
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(target, eval_str=True).parameters.items()
        if name not in given and {*plain(parameter.annotation)} - {NoneType}
    }
    listing = ", ".join(_described(parameter) for parameter in parameters.values()) or "none"
    checked = {}
    for name, value in options.items():
        if name not in parameters:
            near = get_close_matches(name, parameters, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"The {what} has no option {name!r}.{hint} Its options: {listing}.")
        try:
            checked[name] = fit(value, parameters[name].annotation)
        except TypeError as error:
            raise ValueError(f"Option {name!r} of the {what} must be {error}. Its options: {listing}.") from None
    missing = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    if missing := [name for name in missing if name not in checked]:
        raise ValueError(f"The {what} needs the option {' and '.join(map(repr, missing))}. Its options: {listing}.")
    return checked


def _described(parameter: inspect.Parameter) -> str:
    return parameter.name if parameter.default is parameter.empty else f"{parameter.name} = {parameter.default!r}"
