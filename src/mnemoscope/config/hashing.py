"""The hash of a run: ten hexadecimal digits of the settings that determine its result. Folders are named by it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from mnemoscope import registry
from mnemoscope.config.options import changed_options
from mnemoscope.config.toml_format import with_tuples

WITHOUT_EFFECT = ("name", "threads", "checkpoint_every", "cuda_graphs", "log")
"""Settings that do not change the result of a run, and do not enter the hash."""
LATER_DEFAULTS = {
    "readout_bias": True,
    "fixed_readout": None,
    "curriculum_score": 0.96,
    "momentum": 0.0,
    "leave_out": 0,
    "cuda_graphs": None,
    "log": (),
}
"""Defaults of the settings that the first versions did not have. At its default such a setting does not enter the hash,
so that runs of these versions keep theirs.
"""


def run_hash(settings: Mapping[str, Any], evaluate_batches: int) -> str:
    """Return the hash of the settings of a run.

    Settings `WITHOUT_EFFECT` and the place of a task's data do not enter it. An option at its default counts as
    omitted. The defaults are those of the task and of the cell, so that this function imports torch.

    Args:
        settings: the settings that are not None.
        evaluate_batches: batches of an evaluation where neither the settings nor the task's data give a number.

    """
    content = {name: value for name, value in settings.items() if name not in WITHOUT_EFFECT}
    content = without_later_defaults(content)
    task = registry.tasks.load(settings["task"])
    if not getattr(task, "finite", False):
        content.setdefault("evaluate_batches", evaluate_batches)
    without_effect = getattr(task, "unhashed_options", ())
    task_options = {name: value for name, value in settings["task_options"].items() if name not in without_effect}
    cell = registry.learners(settings["task"]).load(settings["cell"])
    content["task_options"] = changed_options(task, task_options)
    content["cell_options"] = changed_options(cell, settings["cell_options"])
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]


def without_later_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without those that the first versions did not have and that are at their default.

    >>> without_later_defaults({"steps": 5, "momentum": 0.0, "log": []})
    {'steps': 5}
    """
    kept = with_tuples(settings)  # JSON holds tuples as lists
    return {
        name: value
        for name, value in settings.items()
        if name not in LATER_DEFAULTS or LATER_DEFAULTS[name] != kept[name]
    }
