"""What a training run gives back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

Stopped = Literal["steps", "target", "patience"]


@dataclass(frozen=True)
class TrainResult:
    """How a finished run went. The network is in the folder: `model, task, config = load_model(result.folder)`."""

    folder: Path
    steps: int
    """Optimiser steps done."""
    stopped: Stopped
    """Why it ended: all steps done, target reached, or out of patience."""
    loss: float
    """Evaluation loss after the last step; of a task with a data set, on the whole test split, with the weights that
    did best in validation."""
    scores: dict[str, float]
    """The task's scores, likewise."""
    baseline: float
    """Loss of the best memoryless predictor."""
    seconds: float
    """Time spent, interruptions not counted."""
    cached: bool = False
    """Whether the run had been finished before, and was only looked up."""

    def as_json(self) -> dict[str, Any]:
        """What result.json holds."""
        content = asdict(self)
        del content["folder"], content["cached"]
        return content

    @classmethod
    def from_json(cls, content: dict[str, Any], folder: Path) -> TrainResult:
        """The result that was stored in `folder`."""
        expected = {each.name for each in fields(cls)} - {"folder", "cached"}
        if {*content} != expected or None in content.values():
            held = ", ".join(f"{name} = {value!r}" for name, value in content.items()) or "nothing"
            raise ValueError(
                f"{folder}/result.json should hold {', '.join(sorted(expected))}, but holds {held}. It was edited, or "
                f"written by another version of mnemoscope; start the run again with overwrite=True (`--overwrite`)."
            )
        return cls(folder=folder, cached=True, **content)
