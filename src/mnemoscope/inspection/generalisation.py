"""Generalisation of trained runs over the number of shapes held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mnemoscope import registry
from mnemoscope.config.options import changed_options
from mnemoscope.inspection.problems import accuracy
from mnemoscope.lenses.relations import Generalisation, TrainedNetwork
from mnemoscope.tasks import RelationalSequence
from mnemoscope.tasks.relational import HeldOutShapes
from mnemoscope.training import load_model

RECIPE = ("optimiser", "learning_rate", "momentum", "weight_decay", "schedule", "steps", "batch_size", "clip")
"""Options of the training of any network."""


def measure_generalisation(runs: Sequence[str | Path]) -> Generalisation:
    """Measure the accuracy of trained runs on seen and unseen shapes, over the number of shapes held out.

    The runs are of one relational task that holds shapes out, with any m, network and seed. Training options in which
    they differ are added to the names of the networks.
    """
    networks, chances = [], {}
    trained = [(folder, *load_model(folder)) for folder in runs]
    recipes = [{name: getattr(config, name) for name in RECIPE} for *_, config in trained]
    varied = [name for name in RECIPE if len({recipe[name] for recipe in recipes}) > 1]
    for (folder, model, task, config), recipe in zip(trained, recipes, strict=True):
        if not isinstance(task, RelationalSequence) or not isinstance(task.relational, HeldOutShapes):
            raise ValueError(f"{folder} is a run of {config.task!r}, which holds no shapes out.")
        seen, unseen = (accuracy(model, task, config.seed, split) for split in ("validation", "test"))
        cell_options = changed_options(registry.networks.load(config.cell), config.cell_options)
        task_options = changed_options(registry.tasks.load(config.task), config.task_options)
        fixed = {name: value for name, value in task_options.items() if name not in ("m", "shape_seed")}
        name = _with_options(config.cell, cell_options | {name: recipe[name] for name in varied})
        networks.append(TrainedNetwork(name, task.relational.m, seen, unseen))
        chances[_with_options(config.task, fixed)] = 1 / task.relational.choices
    if len(chances) > 1:
        raise ValueError(f"Runs must be of one task, but are of {', '.join(chances)}.")
    return Generalisation(tuple(networks), *chances.values())


def _with_options(name: str, options: Mapping[str, Any]) -> str:
    """Return a name followed by the options that differ from their defaults."""
    return " ".join([name, *(f"{option}={value}" for option, value in sorted(options.items()))])
