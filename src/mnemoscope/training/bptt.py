"""Forward and backward pass over one batch by truncated back-propagation through time (BPTT), with penalties."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from mnemoscope.cells import Model
from mnemoscope.cells.state import State, map_state
from mnemoscope.tasks import Batch, Task


@runtime_checkable
class HasPenalty(Protocol):
    """A module with a penalty, such as a matrix that is held near a manifold or a screen that learns to predict.

    The penalty is a mean over the sequences of a batch, or independent of them. With several processes, each process
    weights it by its share of the sequences.
    """

    def penalty(self) -> Tensor | None:
        """Return the penalty after the forward pass of a step, or None if there is none."""
        ...


def penalised_modules(model: nn.Module) -> list[HasPenalty]:
    """Return the modules of a model that have a penalty."""
    return [module for module in model.modules() if isinstance(module, HasPenalty)]


class BatchLoss(NamedTuple):
    """Loss of one batch; its gradient is in the `.grad` of the parameters."""

    loss: Tensor
    """Loss without the penalties, detached."""
    state: State
    """State after the last step, detached."""
    accuracy: float | None
    """Accuracy, if it was requested."""


def backpropagate(
    model: Model,
    task: Task,
    batch: Batch,
    truncate: int | None,
    state: State | None = None,
    scored: bool = False,
    penalised: Sequence[HasPenalty] = (),
    shard: slice | None = None,
) -> BatchLoss:
    """Add the gradient of the batch's loss and of the penalties to the parameters' `.grad`.

    Truncated BPTT cuts the sequence into windows of `truncate` steps. The state passes from one window to the next, its
    gradient does not. The gradients of all windows add up to one optimiser step per sequence. Truncation therefore
    changes which paths a gradient takes, but neither the loss nor the meaning of a step. A window without a counted
    step is run forward only.

    Args:
        model: the network.
        task: gives the loss and the accuracy.
        batch: the whole batch, also if `shard` selects some of its sequences.
        truncate: steps of a window; None for whole sequences.
        state: state before the first step; None for the initial state.
        scored: whether to compute the accuracy.
        penalised: modules whose penalty is added once, in the last window.
        shard: the sequences of this process; None for all. Loss, accuracy and gradient are then the shard's share in
            those of the whole batch: losses are weighted by counted steps, penalties by sequences.

    """
    device = next(model.parameters()).device
    counted = int(batch.mask.sum())
    total, accuracy = torch.zeros((), device=device), 0.0
    windows = [*batch.windows(truncate)]
    for number, window in enumerate(windows, start=1):
        counts = bool(window.mask.any())  # in any sequence of the batch, so that all shards take the same steps
        window = window if shard is None else window.part(shard)
        share = int(window.mask.sum()) / counted  # computed on the CPU, before the transfer: no wait for a GPU
        window, costs = window.to(device), []
        with nullcontext() if counts else torch.no_grad():
            outputs, state = model(window.inputs, state)
            state = map_state(Tensor.detach, state)
        if counts:
            loss = task.loss(outputs, window) * share
            costs.append(loss)
            total = total + loss.detach()
            if scored and share:
                accuracy += share * task.scores(outputs.detach(), window)["accuracy"]
        if number == len(windows):
            penalties = [module.penalty() for module in penalised]
            sequences = 1.0 if shard is None else window.mask.shape[1] / batch.mask.shape[1]
            costs += [sequences * penalty for penalty in penalties if penalty is not None and penalty.requires_grad]
        if costs:
            torch.autograd.backward(costs)  # in one call, as loss and penalties may share a graph
    return BatchLoss(total, state, accuracy if scored else None)
