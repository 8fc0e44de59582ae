"""Checks of the settings of a run: the task and the cell exist and suit each other, and numbers are in range."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from mnemoscope import registry
from mnemoscope.base.suggestions import did_you_mean

CELL_SETTINGS = ("hidden_size", "embedding", "readout_bias", "fixed_readout", "truncate")
"""Settings that have a meaning only where a recurrent cell is trained."""
_AT_LEAST_ONE = (
    "hidden_size",
    "steps",
    "batch_size",
    "evaluate_every",
    "evaluate_batches",
    "checkpoint_every",
    "embedding",
    "truncate",
    "patience",
    "threads",
)
_AT_LEAST_ZERO = ("weight_decay", "leave_out", "seed", "target_loss")
_FRACTIONS = ("target_score", "curriculum_score")
"""Accuracies."""
_LARGEST_SIZE = 2**31 - 1
"""Largest size, count of steps or count of anything else that a run may have."""
_MOST_THREADS = 1024
"""Far more threads leave no process for anything else on the machine."""
_LARGEST_RATE = 1e30
"""Beyond this learning rate, a step of an optimiser overflows float32."""
_BELOW_ONE = ("smoothing", "momentum")
_RATES = ("learning_rate", "orthogonal_learning_rate")
_ABOVE_ZERO = (*_RATES, "clip", "fixed_readout")


def check_settings(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise ValueError unless the settings, which have the right types, describe a run."""
    check_folder_name(settings["name"])
    if settings["task"] not in registry.tasks:
        raise ValueError(unknown("task", settings["task"], registry.tasks.entries, "registered task"))
    _check_cell(settings["task"], settings["cell"])
    if registry.is_relational(settings["task"]):
        _check_relational(settings, defaults)
    for name in _AT_LEAST_ONE:
        _check_range(name, settings[name], 1)
        if settings[name] is not None and settings[name] > _LARGEST_SIZE:
            raise ValueError(f"{name} must be at most {_LARGEST_SIZE:,}, but is {settings[name]:,}.")
    if (settings["threads"] or 1) > _MOST_THREADS:
        raise ValueError(f"threads must be at most {_MOST_THREADS:,}, but is {settings['threads']:,}.")
    for name in _AT_LEAST_ZERO:
        _check_range(name, settings[name], 0)
    for name in _BELOW_ONE:
        if settings[name] is not None and not 0 <= settings[name] < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, but is {settings[name]}.")
    for name in _FRACTIONS:
        if settings[name] is not None and not 0 <= settings[name] <= 1:
            raise ValueError(f"{name} is an accuracy, at least 0 and at most 1, but is {settings[name]}.")
    for name in _ABOVE_ZERO:
        _check_range(name, settings[name], 0, above=True)
    for name in _RATES:
        if (settings[name] or 0) > _LARGEST_RATE:
            raise ValueError(f"{name} must be at most {_LARGEST_RATE:g}, but is {settings[name]}.")
    _check_weight_decay(settings)


def _check_weight_decay(settings: Mapping[str, Any]) -> None:
    """Raise if weight decay alone would reverse the weights in a step: w - rate decay w with rate decay above 1.

    A decay of up to 1 is accepted at any rate, which is then the cause.
    """
    rate = max(settings["learning_rate"], settings["orthogonal_learning_rate"] or 0)
    most = max(1, 1 / rate)
    if settings["weight_decay"] > most:
        raise ValueError(
            f"weight_decay must be at most {most:.4g}, the larger of 1 and 1 / learning rate, but is "
            f"{settings['weight_decay']:g}: it would reverse the weights in every step."
        )


def unknown(setting: str, name: str, known: Iterable[str], what: str) -> str:
    """Return the error message for a name that is not among the known ones."""
    suggestion = did_you_mean(name, known)
    hint = f" {registry.HINT}" if what.startswith("registered") else ""
    return f"{setting} is {name!r}, which is no {what}.{suggestion} There are {', '.join(known)}.{hint}"


def _check_cell(task: str, cell: str) -> None:
    """Raise unless the cell is of the kind that learns the task."""
    learners, relational = registry.learners(task), registry.is_relational(task)
    others = registry.cells if relational else registry.networks
    if cell not in learners and cell in others:
        suited = [entry.name for entry in registry.tasks if registry.is_relational(entry.name) != relational]
        raise ValueError(
            f"cell is {cell!r}, a {others.kind}, which learns the tasks {', '.join(suited)}. The task {task!r} is "
            f"learned by a {learners.kind}: {', '.join(learners.entries)}."
        )
    if cell not in learners:
        raise ValueError(unknown("cell", cell, learners.entries, f"registered {learners.kind}"))


def _check_relational(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise if a setting of recurrent cells is set for a relational network."""
    for name in CELL_SETTINGS:
        if settings[name] != defaults[name]:
            raise ValueError(
                f"{name} is for recurrent cells, but the task {settings['task']!r} is relational: leave it at "
                f"{defaults[name]}. A relational network is configured by its options (cell_options)."
            )


def _check_range(name: str, value: float | None, low: int, above: bool = False) -> None:
    """Raise unless a number is finite and at least `low`, or above it; None is allowed."""
    if value is not None and not (low <= value < inf and (value > low or not above)):
        raise ValueError(f"{name} must be {'above' if above else 'at least'} {low} and finite, but is {value}.")


def check_folder_name(name: str) -> None:
    """Raise unless a name can be that of a folder."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ValueError(
            f"name is the name of a folder: letters, digits, dots, hyphens and underscores, but is {name!r}."
        )
