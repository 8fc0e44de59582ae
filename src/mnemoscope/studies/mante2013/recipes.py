"""Networks of the study: the one with the published size, and changes of it that test why it differs."""

from __future__ import annotations

from typing import Any

Network = dict[str, Any]
"""Changes of the preset context-decision."""


def _network(cell: dict[str, Any] | None = None, task: dict[str, Any] | None = None, **changes: Any) -> Network:
    """Return the network of 100 units in steps of 20 ms, with other options of the cell, the task or the training."""
    options = {"cell_options": {"leak": 0.2, **(cell or {})}, "task_options": {"step": 20.0, **(task or {})}}
    return {"hidden_size": 100, **options, **changes}


MORE_TRIALS: Network = {"steps": 625, "batch_size": 256}
"""160,000 trials, about as many as published; the preset context-decision has 44,800."""
NEAREST = _network()
CAUSES: dict[str, Network] = {
    "44,800 trials": NEAREST,
    "160,000 trials": _network(**MORE_TRIALS),
    "160,000 trials, time constant of 50 ms": _network({"leak": 0.4}, **MORE_TRIALS),
    "160,000 trials, noise in the units": _network({"noise": 0.15}, **MORE_TRIALS),
    "160,000 trials, errors at both ends only": _network(task={"from_onset": False}, **MORE_TRIALS),
}
"""`NEAREST`, and changes of it towards the publication, whose units have a time constant of 10 ms and noise, and whose
errors count at the beginning and at the end of a trial only."""
CAUSES_SEEDS = {
    "160,000 trials, time constant of 50 ms": (0, 1, 2),
    "160,000 trials, noise in the units": (0, 1, 2),
    "160,000 trials, errors at both ends only": (0, 1),
}
