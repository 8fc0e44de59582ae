"""Further training of a model that exists, without a run folder."""

from __future__ import annotations

from math import isfinite

from torch import nn
from torch.optim import Adam

from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Model
from mnemoscope.connectivity import attach_matrices
from mnemoscope.tasks import Task
from mnemoscope.training.bptt import backpropagate, penalised_modules
from mnemoscope.training.result import NonFiniteLoss


def fine_tune(
    model: Model,
    task: Task,
    *,
    steps: int = 200,
    batch_size: int = 64,
    learning_rate: float = 1e-3,
    clip: float = 1.0,
    seed: int = 0,
) -> Model:
    """Train a model in place on fresh batches of a task, by Adam with a constant learning rate, and return it.

    It is meant for variants of a trained model, such as a truncated one (`measure_rank`). Nothing is written; `train`
    has checkpoints, schedules and a record. Parameters that require no gradient do not change.

    Args:
        model: the model, which changes.
        task: draws the batches.
        steps: number of batches.
        batch_size: trials of a batch.
        learning_rate: of Adam.
        clip: largest norm of the gradient.
        seed: seed of the batches.

    >>> import mnemoscope as ms
    >>> task = ms.tasks.FlipFlop(bits=1, length=20)
    >>> model = fine_tune(ms.Model(ms.networks.gru(1, 4), 1), task, steps=2, batch_size=4)

    """
    check_whole(1, steps=steps, batch_size=batch_size)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not learned:
        raise ValueError("The model has no parameters to train: none of them requires a gradient.")
    optimiser, penalised = Adam(learned, learning_rate), penalised_modules(model)
    attach_matrices(model, optimiser)
    for number in range(steps):
        optimiser.zero_grad()
        backpropagate(model, task, task.batch(batch_size, seed, number), None, penalised=penalised)
        norm = float(nn.utils.clip_grad_norm_(learned, clip))
        if not isfinite(norm):
            raise NonFiniteLoss(f"The norm of the gradient is {norm} at step {number}; lower learning_rate or clip.")
        optimiser.step()
    return model
