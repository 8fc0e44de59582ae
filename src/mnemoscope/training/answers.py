"""The outputs of a model on a batch, read out at the steps that count where no other step matters."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from mnemoscope.cells import Model, scan
from mnemoscope.cells.state import State
from mnemoscope.tasks import Batch, Task


class Answers(NamedTuple):
    """Outputs of a model, the batch to compare them with, and the state after the last step."""

    outputs: Tensor
    batch: Batch
    state: State


def answer(model: Model, task: Task, batch: Batch, state: State | None, *, dense: bool = False) -> Answers:
    """Run a model over a batch.

    If the task is pointwise, the readout is applied at the counted steps alone, and the outputs are those of
    `batch.counted()`: with a vocabulary of thousands of tokens, a readout at every step would take most of the time.
    With `dense`, every step is read out, so that all shapes are known before the mask is, as in a CUDA graph.

    >>> from torch import nn
    >>> from mnemoscope.cells import GRU
    >>> from mnemoscope.tasks import Parity
    >>> task = Parity()
    >>> model = Model(GRU(4, 8), task.output_size, nn.Embedding(task.input_size, 4))
    >>> answer(model, task, task.batch(5, seed=0, number=0), None).outputs.shape
    torch.Size([1, 5, 3])
    """
    if dense or not task.pointwise:
        outputs, state = model(batch.inputs, state)
        return Answers(outputs, batch, state)
    features, state = scan(model.cell, model.encode(batch.inputs), state)
    return Answers(model.readout(features[batch.mask]).unsqueeze(0), batch.counted(), state)
