"""A training run as a job for an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mnemoscope.base.files import write_json
from mnemoscope.config.run_config import RunConfig
from mnemoscope.training.loop import train
from mnemoscope.training.result import NonFiniteLoss

TRIAL = "trial.json"
"""File in the folder of a run that has ended; it records the result, or that the loss was not finite."""


def run_trial(settings: dict[str, Any], below: str, root: str) -> None:
    """Train a configuration in its folder in `<root>/<below>`, or resume it, unless the run has ended."""
    config, home = RunConfig(**settings), Path(root, below)
    record = config.folder(home) / TRIAL
    if record.exists():
        return
    result: dict[str, Any]
    try:
        trained = train(config, home, resume=True)
    except NonFiniteLoss as error:
        result = {"diverged": str(error).split(";")[0]}
    else:
        result = {
            "loss": trained.loss,
            **trained.scores,
            "steps": trained.steps,
            "seconds": round(trained.seconds, 1),
            "baseline": trained.baseline,
        }
    write_json(record, {"trial": {"settings": settings, "seed": config.seed}, "result": result})
