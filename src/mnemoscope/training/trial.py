"""A run as a job: what an engine calls for a trial that is a training and nothing else. Quick to import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mnemoscope.base.files import write_json
from mnemoscope.config.run_config import RunConfig
from mnemoscope.training.loop import NonFiniteLoss, train

TRIAL = "trial.json"
"""File in the folder of a run which says that it has ended, and how: finished, or not finite any more."""


def run_trial(settings: dict[str, Any], below: str, root: str) -> None:
    """Train a configuration in its folder in `<root>/<below>`, or go on with it, unless it has ended."""
    config, home = RunConfig(**settings), Path(root, below)
    ended = config.folder(home) / TRIAL
    if ended.exists():
        return
    result: dict[str, Any]
    try:
        trained = train(config, home, resume=True)
    except NonFiniteLoss as error:
        result = {"diverged": str(error).split(";")[0]}
    else:
        result = {"loss": trained.loss, **trained.scores, "steps": trained.steps, "seconds": round(trained.seconds, 1),
                  "baseline": trained.baseline}  # fmt: skip
    write_json(ended, {"trial": {"settings": settings, "seed": config.seed}, "result": result})
