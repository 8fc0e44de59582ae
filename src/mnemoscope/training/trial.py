"""A training run as a job for an engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mnemoscope.base.files import write_json
from mnemoscope.base.reading import read_json
from mnemoscope.config.run_config import RunConfig
from mnemoscope.training.callbacks import Callback
from mnemoscope.training.loop import train
from mnemoscope.training.result import NonFiniteLoss

TRIAL = "trial.json"
"""File in the folder of a run that has ended; it records the result, or that the loss was not finite."""


def run_trial(settings: dict[str, Any], below: str, root: str) -> None:
    """Train a configuration in its folder in `<root>/<below>`, or resume it, unless the run has ended."""
    config, home = RunConfig(**settings), Path(root, below)
    if not (config.folder(home) / TRIAL).exists():
        write_trial(config, home, settings, train_or_diverge(config, home))


def train_or_diverge(config: RunConfig, home: Path, callbacks: Sequence[Callback] = ()) -> dict[str, Any]:
    """Train a configuration in its folder in `home`, or resume it, and return its result as plain values.

    The result of a run that does not stay finite is the reason, as `diverged`.
    """
    try:
        trained = train(config, home, resume=True, callbacks=callbacks)
    except NonFiniteLoss as error:
        return {"diverged": str(error).split(";")[0]}
    return {
        "loss": trained.loss,
        **trained.scores,
        "steps": trained.steps,
        "seconds": round(trained.seconds, 1),
        "baseline": trained.baseline,
    }


def trained_to_the_end(folder: Path) -> bool:
    """Whether the run of a folder has ended with finite numbers."""
    return (folder / TRIAL).exists() and "diverged" not in read_json(folder / TRIAL)["result"]


def write_trial(config: RunConfig, home: Path, settings: dict[str, Any], result: dict[str, Any]) -> None:
    """Write the file that marks a run as ended."""
    content = {"trial": {"settings": settings, "seed": config.seed}, "result": result}
    write_json(config.folder(home) / TRIAL, content)
