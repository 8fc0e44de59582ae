"""Forward and backward pass over one batch by truncated back-propagation through time (BPTT), with penalties."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Int
from mnemoscope.cells import Model
from mnemoscope.cells.state import State, leaves, map_state
from mnemoscope.tasks import Batch, Task
from mnemoscope.training.answers import answer, read_places


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


class Window(NamedTuple):
    """A window of a batch, with what the loss needs to know of the whole batch."""

    batch: Batch
    counts: bool
    """Whether a step counts in any sequence of the batch, so that all shards take the same steps."""
    share: float | Float[Tensor, ""]
    """Counted steps, as a share of those of the whole batch."""
    sequences: float
    """Sequences, as a share of those of the whole batch."""
    places: Int[Tensor, " places"] | None
    """Places at which the network is read out; None for all."""

    def to(self, device: torch.device | str, *, copy: bool = False) -> Window:
        """Return the window with its tensors on another device."""
        batch = map_state(lambda part: part.to(device, copy=copy), self.batch)
        return self._replace(batch=batch, places=None if self.places is None else self.places.to(device, copy=copy))

    def tensors(self) -> list[Tensor]:
        """Return the tensors that change from batch to batch."""
        return [*leaves(self.batch), *([] if self.places is None else [self.places])]


class WindowOutputs(NamedTuple):
    """Outputs of a network in a window that counts, and the window on the same device."""

    outputs: Tensor
    batch: Batch


def cut_windows(
    task: Task, batch: Batch, truncate: int | None, shard: slice | None = None, *, on_gpu: bool = False
) -> list[Window]:
    """Return the windows of a batch on the CPU, to be run there or on a GPU; see `backpropagate` for the arguments."""
    counted, windows = int(batch.mask.sum()), []
    for whole in batch.windows(truncate):
        part = whole if shard is None else whole.part(shard)
        sequences = 1.0 if shard is None else part.mask.shape[1] / batch.mask.shape[1]
        everywhere = on_gpu and truncate is not None  # the numbers of counted steps of windows vary
        places = None if everywhere else read_places(task, part, of_few_lengths=on_gpu)
        windows.append(Window(part, bool(whole.mask.any()), int(part.mask.sum()) / counted, sequences, places))
    return windows


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
    on_gpu = next(model.parameters()).device.type == "cuda"
    # shares and places are counted on the CPU: no wait for a GPU
    windows = cut_windows(task, batch, truncate, shard, on_gpu=on_gpu)
    loss, state, outputs = run_windows(model, task, windows, state, penalised, keep_outputs=scored)
    return BatchLoss(loss, state, batch_accuracy(task, windows, outputs) if scored else None)


def run_windows(
    model: Model,
    task: Task,
    windows: Sequence[Window],
    state: State | None,
    penalised: Sequence[HasPenalty],
    *,
    keep_outputs: bool,
) -> tuple[Float[Tensor, ""], State, list[WindowOutputs]]:
    """Run windows forward and backward; return the loss, the last state, and the outputs if they are to be kept."""
    device = next(model.parameters()).device
    total, kept = torch.zeros((), device=device), []
    for number, window in enumerate(windows, start=1):
        window, costs = window.to(device), []
        with nullcontext() if window.counts else torch.no_grad():
            outputs, batch, state = answer(model, window.batch, state, window.places)
            state = map_state(Tensor.detach, state)
        if window.counts:
            loss = task.loss(outputs, batch)
            loss = loss * (window.share.to(loss.dtype) if isinstance(window.share, Tensor) else window.share)
            costs.append(loss)
            total = total + loss.detach()
            if keep_outputs:
                kept.append(WindowOutputs(outputs.detach(), batch))
        if number == len(windows):
            penalties = [module.penalty() for module in penalised]
            costs += [window.sequences * cost for cost in penalties if cost is not None and cost.requires_grad]
        if costs:
            torch.autograd.backward(costs)  # in one call, as loss and penalties may share a graph
    return total, state, kept


def batch_accuracy(task: Task, windows: Sequence[Window], outputs: Sequence[WindowOutputs]) -> float:
    """Return the accuracy of a batch from the outputs of its windows that count."""
    shares = [float(window.share) for window in windows if window.counts]
    return sum(
        share * task.scores(part.outputs, part.batch)["accuracy"]
        for share, part in zip(shares, outputs, strict=True)
        if share
    )
