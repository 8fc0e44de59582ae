"""Stopping rules: target reached, all steps done, or no improvement for too long."""

from __future__ import annotations

from typing import Any

from mnemoscope.config.run_config import RunConfig
from mnemoscope.training.checkpoint import Counters
from mnemoscope.training.result import StopReason


def stop_reason(config: RunConfig, counters: Counters, line: dict[str, Any]) -> StopReason | None:
    """Update the counters of the lowest loss with an evaluation, and return why the run stops, or None if it continues.

    Args:
        config: holds the targets, the number of steps and the patience.
        counters: updated in place.
        line: the evaluation, a line of metrics.jsonl.

    """
    if counters.lowest_loss is None or line["loss"] < counters.lowest_loss:
        counters.lowest_loss, counters.stale = line["loss"], 0
    else:
        counters.stale += 1
        counters.worse += 1
    low_enough = config.target_loss is None or line["loss"] <= config.target_loss
    good_enough = config.target_score is None or line["accuracy"] >= config.target_score
    if low_enough and good_enough and (config.target_loss, config.target_score) != (None, None):
        return "target"
    if counters.step == config.steps:
        return "steps"
    return "patience" if config.patience is not None and counters.stale >= config.patience else None
