"""Gradient training, FORCE, ridge regression of readouts, run folders, checkpoints and resume."""

from mnemoscope.training.build import build_model, build_task, task_named
from mnemoscope.training.callbacks import Callback, StartInfo, StepInfo
from mnemoscope.training.evaluation import evaluate, evaluate_tasks
from mnemoscope.training.force import ForceRun, Snapshot, train_force
from mnemoscope.training.least_squares import RecursiveLeastSquares, ridge
from mnemoscope.training.loop import train
from mnemoscope.training.non_finite import NonFiniteLoss
from mnemoscope.training.result import TrainResult
from mnemoscope.training.ridge_readout import fit_readout
from mnemoscope.training.run_folder import RunFolder, load_model

__all__ = [
    "Callback",
    "ForceRun",
    "NonFiniteLoss",
    "RecursiveLeastSquares",
    "RunFolder",
    "Snapshot",
    "StartInfo",
    "StepInfo",
    "TrainResult",
    "build_model",
    "build_task",
    "evaluate",
    "evaluate_tasks",
    "fit_readout",
    "load_model",
    "ridge",
    "task_named",
    "train",
    "train_force",
]
