"""Gradient training, readouts by least squares, run folders, checkpoints, resume."""

from mnemoscope.training.build import build_model, build_task, task_named
from mnemoscope.training.callbacks import Begun, Follower, StepInfo
from mnemoscope.training.evaluation import evaluate
from mnemoscope.training.force_learning import ForceRun, Snapshot, fit_readout, train_force
from mnemoscope.training.least_squares import RecursiveLeastSquares, ridge
from mnemoscope.training.lengths import evaluate_each
from mnemoscope.training.loop import NonFiniteLoss, train
from mnemoscope.training.result import TrainResult
from mnemoscope.training.run_folder import RunFolder, load_model

__all__ = [
    "Begun",
    "Follower",
    "ForceRun",
    "NonFiniteLoss",
    "RecursiveLeastSquares",
    "RunFolder",
    "Snapshot",
    "StepInfo",
    "TrainResult",
    "build_model",
    "build_task",
    "evaluate",
    "evaluate_each",
    "fit_readout",
    "load_model",
    "ridge",
    "task_named",
    "train",
    "train_force",
]
