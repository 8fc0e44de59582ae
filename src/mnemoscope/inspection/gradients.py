"""How much of the gradient of a task's loss reaches each step, before and after training."""

from __future__ import annotations

from copy import deepcopy

import torch

from mnemoscope.cells import Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.lenses.gradients import GradientNorms, gradient_norms
from mnemoscope.tasks import Batch, Task
from mnemoscope.training import build_model

BEFORE, AFTER = "before training", "after training"


def task_gradients(task: Task, model: Model, batch: Batch, name: str = "") -> GradientNorms:
    """Return `|dL / dh_t|` of the loss of a task on a batch, in float64; the model is not changed.

    >>> from mnemoscope.cells import GRU
    >>> from mnemoscope.tasks import Copy
    >>> task = Copy(delay=5)
    >>> task_gradients(task, Model(GRU(10, 8), output_size=9), task.batch(4, seed=0, number=0)).norms.shape
    torch.Size([1, 25, 4])
    """
    model = deepcopy(model).double()
    with torch.no_grad():
        xs = model.encode(batch.inputs.double())
    return gradient_norms(model.cell, xs, lambda outputs: task.loss(model.readout(outputs), batch), name=name)


def gradients_before_and_after(config: RunConfig, task: Task, trained: Model, batch: Batch) -> GradientNorms:
    """Return the gradients of a trained network next to those of the untrained network of its run."""
    untrained = build_model(config, task).eval()
    return task_gradients(task, untrained, batch, BEFORE).concatenate(task_gradients(task, trained, batch, AFTER))
