"""The weights that the released notebook of Karuvally et al. 2023 evaluates: the last of the best five epochs.

The released training saves the network after each epoch of 2,000 batches and keeps five of ten, those with the highest
accuracy on the last training batch of the epoch. The notebook loads the latest file. If the first five epochs are
perfect, no later one is better, and the network is the one after 10,000 iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mnemoscope.base.tensor_files import read_tensors, write_tensors
from mnemoscope.cells import Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.tasks import Task
from mnemoscope.training import build_task
from mnemoscope.training.callbacks import Callback, StartInfo, StepInfo
from mnemoscope.training.evaluation import evaluate

EPOCH = 2000
"""Batches in an epoch."""
KEPT = 5
"""Number of epochs whose weights are kept."""


class SaveEpochs(Callback):
    """Save the weights after each epoch, with the accuracy on a training batch of the present stage.

    The batch is the next one, which the network has not yet learned from.
    """

    config: RunConfig
    folder: Path
    stages: Sequence[Task]

    def on_start(self, info: StartInfo) -> None:
        self.config, self.folder, self.stages = info.config, info.folder, build_task(info.config).stages()

    def on_step(self, info: StepInfo) -> None:
        if info.step % EPOCH:
            return
        assert info.evaluation is not None  # an epoch is a multiple of evaluate_every
        task = self.stages[info.evaluation["stage"]]
        batch = task.batch(self.config.batch_size, self.config.seed, info.step).to(self.config.device)
        accuracy = evaluate(info.model, task, [batch])["accuracy"]
        write_tensors(epoch_file(self.folder, info.step // EPOCH), info.model.state_dict(), {"accuracy": accuracy})


def load_epoch(model: Model, run: Path, steps: int) -> int:
    """Load the weights of the evaluated epoch of a run of `steps` iterations, and return its number; the first is 1."""
    saved = [read_tensors(epoch_file(run, epoch)) for epoch in range(1, steps // EPOCH + 1)]
    epoch = evaluated_epoch([header["accuracy"] for _, header in saved])
    model.load_state_dict(saved[epoch - 1][0])
    return epoch


def evaluated_epoch(accuracies: Sequence[float]) -> int:
    """Return the number of the latest epoch that is kept; the first is 1.

    The first five are kept. A later one replaces the worst, among equally bad ones the oldest, if it is better.

    >>> evaluated_epoch([1.0] * 10), evaluated_epoch([0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.4])
    (5, 6)
    """
    kept: dict[int, float] = {}
    for epoch, accuracy in enumerate(accuracies, 1):
        if len(kept) == KEPT:
            worst = min(kept, key=lambda each: kept[each])
            if accuracy <= kept[worst]:
                continue
            del kept[worst]
        kept[epoch] = accuracy
    return max(kept)


def evaluated_accuracy(model: Model, task: Task, config: RunConfig, batches: int) -> float:
    """Return the share of right bits on this number of test batches."""
    drawn = (task.batch(config.batch_size, config.seed, number, "test") for number in range(batches))
    return evaluate(model, task, drawn)["accuracy"]


def epoch_file(run: Path, epoch: int) -> Path:
    """Return the file with the weights after an epoch."""
    return run / f"epoch_{epoch}.safetensors"
