"""A box of states that a Turing machine never leaves."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import GRU, LSTM, Elman
from mnemoscope.cells.cell import Box, Cell
from mnemoscope.cells.matrix import DeepTransition, MatrixGRU, MatrixLSTM, MatrixRNN
from mnemoscope.cells.state import Layout
from mnemoscope.memory.intervals import Range
from mnemoscope.memory.tape.feed_forward import FeedForward
from mnemoscope.memory.tape.state import TapeCell

ROOM, BESIDE = 1.5, 0.25
"""How much larger than need be the box is for numbers in memory, and for weights: what a machine rests at is often at
its limits, all of a slot and a weight of 1, and a search needs room on both sides of it."""
KNOWN = (Elman, GRU, LSTM, FeedForward, MatrixRNN, MatrixLSTM, MatrixGRU, DeepTransition)
"""Controllers that show a part of their state as it is, so that its bounds are those of what they show."""


def machine_box(machine: TapeCell, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> Box | None:
    """A box that the step maps into itself for every input between `low` and `high`, or None.

    What a controller shows lies between bounds that do not depend on what it reads (a tanh, h of an LSTM), and so does
    what heads are told, which is linear in it. From this follow, in turn:

    - the weights: those of a step are between 0 and 1, whatever they were before;
    - the memory: a head leaves at most `(1 - w e) |m| + w |a|` of a number m. Whatever 0 <= w <= 1 is, that is no more
      than c if |m| <= c and `|a| <= e c`; as e > 0 is a logistic function of a bounded number, `c = max |a| / min e`
      will do. Of H heads the bound is linear in each weight, and so largest where k of them have weight 1 and the
      others 0: `(1 - e)^k c + k |a| <= c` for `c = k |a| / (1 - (1 - e)^k)`, which grows with k up to H;
    - what is read, a mean of slots;
    - the rest of the controller's state, for such inputs and reads.

    The box is stretched to hold the initial state. The step is continuous, so that by Brouwer it has a fixed point
    here. None where the controller has no such bounds, or where 1 - min e cannot be told from 1.
    """
    begin = machine.initial_state(1)
    reads = begin.reads.detach()
    nothing = (torch.zeros_like(reads), torch.zeros_like(reads))
    found = _controller(machine.controller, low, high, nothing)
    if found is None:
        return None
    shown = found[1]
    change = machine.heads.ranges(*shown)[1]
    c = _largest(change, machine.write_heads)
    if c is None:
        return None
    memory = torch.maximum(c.view(machine.slot_shape), begin.memory.detach().abs().amax((0, 1)))
    memory = memory.expand(begin.memory.shape)
    read = memory[:, :1].expand(reads.shape)
    found = _controller(machine.controller, low, high, (-read, read))
    if found is None or bool((found[1][0] < shown[0]).any() | (found[1][1] > shown[1]).any()):
        return None  # what it shows depends on what it reads
    weights = [torch.zeros_like(part.detach()) for part in (begin.read_weights, begin.write_weights)]
    parts = [found[0], (-memory, memory), *((each - BESIDE, each + 1 + BESIDE) for each in weights), (-read, read)]
    lowest, highest = (torch.cat([part[end].flatten() for part in parts]) for end in (0, 1))
    return (lowest, highest) if torch.isfinite(torch.cat([lowest, highest])).all() else None


def _controller(cell: Cell, low: Tensor, high: Tensor, reads: Range) -> tuple[Box, Range] | None:
    """A box of flat states that it never leaves, and one of what it shows in there, for inputs between `low` and `high`
    and such reads; None where none is known.
    """
    if type(cell) not in KNOWN:
        return None
    box = cell.bounds(*(torch.cat([end, read.flatten()]) for end, read in zip((low, high), reads, strict=True)))
    if box is None:
        return None
    layout = Layout(cell.initial_state(1))
    least, most = (cell.output(layout.unflatten(end[None]))[0] for end in box)
    return box, (least, most)


def _largest(change: Range, writers: int) -> Float[Tensor, " numbers"] | None:
    """Of each number of a slot, from what its heads erase and add; None where they may erase too little."""
    erased = torch.sigmoid(change[0][0, :writers].amin(0))
    added = torch.tanh(torch.maximum(-change[0][0, writers:], change[1][0, writers:]).amax(0))
    if bool((1 - erased == 1).any()):
        return None
    return ROOM * writers * added / -torch.expm1(writers * torch.log1p(-erased))
