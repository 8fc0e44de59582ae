"""Gradient training, FORCE, ridge regression of readouts, run folders, checkpoints and resume."""

from mnemoscope.training.build import build_model as build_model, build_task as build_task, task_named as task_named
from mnemoscope.training.callbacks import Callback as Callback, StartInfo as StartInfo, StepInfo as StepInfo
from mnemoscope.training.evaluation import (
    evaluate as evaluate,
    evaluate_loads as evaluate_loads,
    evaluate_spans as evaluate_spans,
    evaluate_tasks as evaluate_tasks,
)
from mnemoscope.training.fine_tuning import fine_tune as fine_tune
from mnemoscope.training.force import ForceRun as ForceRun, Snapshot as Snapshot, train_force as train_force
from mnemoscope.training.least_squares import RecursiveLeastSquares as RecursiveLeastSquares, ridge as ridge
from mnemoscope.training.loop import train as train
from mnemoscope.training.network_fit import NetworkFit as NetworkFit
from mnemoscope.training.recording_fit import fit_network as fit_network
from mnemoscope.training.result import NonFiniteLoss as NonFiniteLoss, TrainResult as TrainResult
from mnemoscope.training.ridge_readout import fit_readout as fit_readout
from mnemoscope.training.run_folder import RunFolder as RunFolder, load_model as load_model
from mnemoscope.training.sequence_scores import (
    Accuracy as Accuracy,
    SequenceScores as SequenceScores,
    evaluate_sequences as evaluate_sequences,
    score_sequences as score_sequences,
)
