"""A box of states that a Turing machine never leaves."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import GRU, LSTM, Elman
from mnemoscope.cells.cell import Box, Cell
from mnemoscope.cells.matrix import DeepTransition, MatrixGRU, MatrixLSTM, MatrixRNN
from mnemoscope.cells.state import Layout
from mnemoscope.memory.intervals import Interval
from mnemoscope.memory.tape.feed_forward import FeedForward
from mnemoscope.memory.tape.state import TapeCell

ROOM, MARGIN = 1.5, 0.25
"""Factor on the bounds of the memory, and margin of the weights. Fixed points often lie at the bounds, with saturated
memory and a weight of 1, and a search needs room on both sides."""
KNOWN = (Elman, GRU, LSTM, FeedForward, MatrixRNN, MatrixLSTM, MatrixGRU, DeepTransition)
"""Controllers whose output is a part of their state, so that the bounds of the state hold for the output."""


def machine_box(machine: TapeCell, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> Box | None:
    """Return a box that the step maps into itself for every input between `low` and `high`, or None.

    The output of the controller has bounds that do not depend on its input (a tanh, or h of an LSTM), and so have the
    parameters of the heads, which are linear in it. From this follow, in turn, the bounds of:

    - the weights, which are always between 0 and 1;
    - the memory: writing changes a number m to at most `(1 - w e) |m| + w |a|`. For any 0 <= w <= 1 this is at most c
      if |m| <= c and `|a| <= e c`; as e > 0 is a logistic function of a bounded number, `c = max |a| / min e` suffices.
      For H heads the bound is linear in each weight, and so largest if k of them have weight 1 and the others 0:
      `(1 - e)^k c + k |a| <= c` for `c = k |a| / (1 - (1 - e)^k)`, which grows with k up to H;
    - the reads, which are means of slots;
    - the rest of the controller's state, for such inputs and reads.

    The box is extended to include the initial state. The step is continuous, so that it has a fixed point in the box by
    Brouwer's theorem. The result is None if the controller has no such bounds, or if 1 - min e rounds to 1.
    """
    begin = machine.initial_state(1)
    reads = begin.reads.detach()
    no_reads = (torch.zeros_like(reads), torch.zeros_like(reads))
    found = _controller(machine.controller, low, high, no_reads)
    if found is None:
        return None
    hidden = found[1]
    change = machine.heads.ranges(*hidden)[1]
    c = _largest(change, machine.write_heads)
    if c is None:
        return None
    memory = torch.maximum(c.view(machine.slot_shape), begin.memory.detach().abs().amax((0, 1)))
    memory = memory.expand(begin.memory.shape)
    read = memory[:, :1].expand(reads.shape)
    found = _controller(machine.controller, low, high, (-read, read))
    if found is None or bool((found[1][0] < hidden[0]).any() | (found[1][1] > hidden[1]).any()):
        return None  # its output bounds depend on the reads
    weights = [torch.zeros_like(part.detach()) for part in (begin.read_weights, begin.write_weights)]
    parts = [found[0], (-memory, memory), *((zero - MARGIN, zero + 1 + MARGIN) for zero in weights), (-read, read)]
    lowest, highest = (torch.cat([part[end].flatten() for part in parts]) for end in (0, 1))
    return (lowest, highest) if torch.isfinite(torch.cat([lowest, highest])).all() else None


def _controller(cell: Cell, low: Tensor, high: Tensor, reads: Interval) -> tuple[Box, Interval] | None:
    """Return a box of flat states that the controller never leaves, and the range of its output, or None.

    This holds for inputs between `low` and `high` and reads in the range `reads`.
    """
    if type(cell) not in KNOWN:
        return None
    box = cell.bounds(*(torch.cat([end, read.flatten()]) for end, read in zip((low, high), reads, strict=True)))
    if box is None:
        return None
    layout = Layout(cell.initial_state(1))
    least, most = (cell.output(layout.unflatten(end[None]))[0] for end in box)
    return box, (least, most)


def _largest(change: Interval, writers: int) -> Float[Tensor, " numbers"] | None:
    """Return the bound of each number of a slot, or None if the heads may erase too little."""
    erased = torch.sigmoid(change[0][0, :writers].amin(0))
    added = torch.tanh(torch.maximum(-change[0][0, writers:], change[1][0, writers:]).amax(0))
    if bool((1 - erased == 1).any()):
        return None
    return ROOM * writers * added / -torch.expm1(writers * torch.log1p(-erased))
