"""Networks of the study: the one with the published size, and changes of it that test why it differs."""

from __future__ import annotations

from typing import Any

from mnemoscope.replication.verdicts import UNKNOWN

Network = dict[str, Any]
"""Changes of the preset context-decision."""


def _network(cell: dict[str, Any] | None = None, task: dict[str, Any] | None = None, **changes: Any) -> Network:
    """Return the network of 100 units in steps of 20 ms, with other options of the cell, the task or the training."""
    options = {"cell_options": {"leak": 0.2, **(cell or {})}, "task_options": {"step": 20.0, **(task or {})}}
    return {"hidden_size": 100, **options, **changes}


MORE_TRIALS: Network = {"steps": 625, "batch_size": 256}
"""160,000 trials; the preset context-decision has 44,800."""
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
_NO_LINE = f"{UNKNOWN}; without a line of slow points there is no direction"
TESTED = {
    "slowest time constant over the stimulus": f"{UNKNOWN}; not too few trials alone: with 160,000, 4 of "
    "6 match; at slow points by descent, 3 of 4 with 44,800 trials and 5 of 6 with 160,000",
    "slow points with one slow mode": f"{UNKNOWN}; neither too few trials nor how slow points are found: "
    "with 160,000 trials none of 6 matches, at slow points by descent none of 10",
    "line of slow points": f"{UNKNOWN}; not too few trials: with 160,000, none of 6 matches",
    "line along the choice axis": _NO_LINE,
    "lines of both contexts parallel": f"{_NO_LINE}, and one line has no other to be parallel to",
    "relevant over irrelevant input, kept": f"{UNKNOWN}; with 160,000 trials instead of 44,800, the ratios that exist "
    "all fall, and one of 6 misses the range by 0.06",
    "relevant over irrelevant input, at once": f"{UNKNOWN}; with 160,000 trials 6 of 6 match, which does not show that "
    "trials are the cause where 6 of 8 match without them",
}
"""Findings of the preset causes about the networks of the preset paper, by quantity."""
