"""Use of the tape by trained machines: how often the read head returns to the slots of the items that are due.

Renanse et al. 2021, Fig 6 and 8, show the heads of one machine each. Here a head is at the slot of its largest weight.
A controller may hold an item for some steps before it is written, so an item is taken to be written a constant number
of steps after it was shown: the number of steps, up to `MOST_DELAY`, for which most reads agree.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mnemoscope.base.array_types import Bool, Int
from mnemoscope.cells import Model
from mnemoscope.lenses import Tape, record_tape
from mnemoscope.tasks import Batch
from mnemoscope.tasks.bit_task import BitTask

MOST_DELAY = 2
"""Most steps between an item and its writing."""
READ_WHERE_WRITTEN = "answers read from the slot of their item"
"""Share of the items due at which the read head is at the slot that the write head had when the item was shown."""
NEIGHBOURS = "items written next to the item before"
"""Share of the items written one slot further than the item before, in the direction that most of them take."""


def measure_tape_use(model: Model, task: BitTask, sequences: int, seed: int) -> dict[str, Any]:
    """Return where a machine writes and reads on sequences of one length: two shares and the delay of writing."""
    batch = task.batch(sequences, seed, 0, "validation")
    device = next(model.parameters()).device
    return use_of_tape(record_tape(model, batch.inputs.to(device)), batch, task.random_bits)


def use_of_tape(tape: Tape, batch: Batch, bits: int) -> dict[str, Any]:
    """Return the shares and the delay of a tape that was recorded along a batch whose items have so many bits."""
    due = batch.mask[:, 0]
    shown = shown_before(batch.inputs[..., :bits].bool(), batch.targets[due][..., :bits])
    write, read = (weights.mean(2).argmax(-1) for weights in (tape.write_weights, tape.read_weights))
    places = [write.gather(0, shown + delay) for delay in range(MOST_DELAY + 1)]
    shares = [float((place == read[due]).double().mean()) for place in places]
    delay = max(range(len(shares)), key=shares.__getitem__)
    moves = places[delay].diff(dim=0) % tape.memory.shape[2]
    steps = [float((moves == step).double().mean()) for step in (1, tape.memory.shape[2] - 1)] if len(moves) else [0.0]
    return {READ_WHERE_WRITTEN: round(shares[delay], 4), NEIGHBOURS: round(max(steps), 4), "delay": delay}


def shown_before(
    inputs: Bool[Tensor, "time batch bits"], due: Bool[Tensor, "items batch bits"]
) -> Int[Tensor, "items batch"]:
    """Return the first step whose input has the bits of each item that is due.

    >>> inputs = Tensor([[1, 0], [0, 1], [0, 0]]).bool().unsqueeze(1)
    >>> shown_before(inputs, inputs[[1, 0]]).flatten().tolist()
    [1, 0]
    """
    same = (inputs.unsqueeze(0) == due.unsqueeze(1)).all(-1)  # (items, time, batch)
    return same.int().argmax(1)
