"""Gradient training, run folders, checkpoints, resume."""

from mnemoscope.training.build import build_model, build_task
from mnemoscope.training.loop import NonFiniteLoss, StepInfo, evaluate, train
from mnemoscope.training.result import TrainResult
from mnemoscope.training.run_folder import RunFolder, load_model

__all__ = [
    "NonFiniteLoss",
    "RunFolder",
    "StepInfo",
    "TrainResult",
    "build_model",
    "build_task",
    "evaluate",
    "load_model",
    "train",
]
