"""How much of the gradient of a task's loss reaches each step, before and after training."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Literal

import torch
from torch import Tensor

from mnemoscope.cells import Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, PHONE_WIDTH
from mnemoscope.lenses.gradients import GradientNorms, gradient_norms
from mnemoscope.lenses.gradients.figure import draw_gradients
from mnemoscope.report.markup import figure_markup
from mnemoscope.tasks import Batch, Task
from mnemoscope.training import build_model

BEFORE, AFTER = "before training", "after training"


def task_gradients(
    task: Task, model: Model, batch: Batch, name: str = "", by: Literal["time", "part"] = "time"
) -> GradientNorms:
    """Return `|dL / dh_t|` of the loss of a task on a batch, in float64; the model is not changed.

    >>> from mnemoscope.cells import GRU
    >>> from mnemoscope.tasks import Copy
    >>> task = Copy(delay=5)
    >>> task_gradients(task, Model(GRU(10, 8), output_size=9), task.batch(4, seed=0, number=0)).norms.shape
    torch.Size([1, 25, 4])
    """
    model = deepcopy(model).double()
    with torch.no_grad():
        xs = model.encode(batch.inputs.double() if batch.inputs.is_floating_point() else batch.inputs)
    return gradient_norms(model.cell, xs, lambda outputs: task.loss(model.readout(outputs), batch), by=by, name=name)


def gradients_before_and_after(config: RunConfig, task: Task, trained: Model, batch: Batch) -> GradientNorms:
    """Return the gradients of a trained network next to those of the untrained network of its run."""
    untrained = build_model(config, task).eval()
    return task_gradients(task, untrained, batch, BEFORE).concatenate(task_gradients(task, trained, batch, AFTER))


def gradient_figure(
    gradients: GradientNorms, caption: str, name: str = "gradients", bounds: Mapping[str, Tensor] | None = None
) -> str:
    """Return the markup of the norms over the steps; `bounds` as in `draw_gradients`, and `name` unique on a page."""
    figure = draw_gradients(
        gradients, COLOUR, bounds=bounds, figure=new_figure(PHONE_WIDTH, 3.6), font_size=PAGE_FONT_SIZE
    )
    alt = "Norm of the gradient of the loss with respect to the state of each step"
    return figure_markup(figure, name, alt=f"{alt}: {', '.join(gradients.names)}.", caption=caption)
