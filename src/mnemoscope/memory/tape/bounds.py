"""A box of states that a Turing machine never leaves."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from mnemoscope.cells.cell import Box
from mnemoscope.memory.ranges import Range
from mnemoscope.shapes import Float

if TYPE_CHECKING:
    from mnemoscope.memory.tape.machine import TuringMachine

ROOM, ABOVE = 1.5, 1.0
"""How much larger than need be the box is for numbers in memory, and for logarithms of weights: what a machine rests at
is often at its limits, all of a slot and a weight of 1, and a search needs room on both sides of it."""


def machine_box(
    machine: TuringMachine, low: Float[Tensor, " features"], high: Float[Tensor, " features"]
) -> Box | None:
    """A box that the step maps into itself for every input between `low` and `high`, or None.

    What a controller shows lies between bounds that do not depend on what it reads (a tanh, h of an LSTM), and so does
    what heads are told, which is linear in it. From this follow, in turn:

    - the memory: a head leaves at most `(1 - w e) |m| + w |a|` of a number m. Whatever 0 <= w <= 1 is, that is no more
      than c if |m| <= c and `|a| <= e c`; as e > 0 is a logistic function of a bounded number, `c = max |a| / min e`
      will do. Of H heads the bound is linear in each weight, and so largest where k of them have weight 1 and the
      others 0: `(1 - e)^k c + k |a| <= c` for `c = k |a| / (1 - (1 - e)^k)`, which grows with k up to H;
    - what is read, a mean of slots;
    - the weights: no logarithm is above 0, nor below `gamma (log g - 2 beta - log N) - log N` (see `addressing`), if
      none was above 0 before;
    - the rest of the controller's state, for such inputs and reads.

    The box is stretched to hold the initial state. The step is continuous, so that by Brouwer it has a fixed point
    here. None where the controller has no such bounds, or where 1 - min e cannot be told from 1.
    """
    begin = machine.initial_state(1)
    reads = begin.reads.detach()
    nothing = (torch.zeros_like(reads), torch.zeros_like(reads))
    found = machine.controller.bounds(low, high, nothing)
    if found is None:
        return None
    shown = found[1]
    _, change, _, rest = machine.heads.ranges(*shown)
    c = _largest(change, machine.write_heads)
    if c is None:
        return None
    memory = torch.maximum(c.view(machine.slot_shape), begin.memory.detach().abs().amax((0, 1)))
    memory = memory.expand(begin.memory.shape)
    read = memory[:, :1].expand(reads.shape)
    found = machine.controller.bounds(low, high, (-read, read))
    if found is None or bool((found[1][0] < shown[0]).any() | (found[1][1] > shown[1]).any()):
        return None  # what it shows depends on what it reads
    floor = _floor(machine, rest)[:, None].expand(-1, machine.slots)
    write, heads = floor.split((machine.write_heads, machine.read_heads))
    parts = [found[0], (-memory, memory)]
    parts += [(torch.minimum(one, weights[0].detach()), torch.full_like(one, ABOVE))
              for one, weights in ((heads, begin.log_read), (write, begin.log_write))]  # fmt: skip
    parts.append((-read, read))
    lowest, highest = (torch.cat([part[end].flatten() for part in parts]) for end in (0, 1))
    return (lowest, highest) if torch.isfinite(torch.cat([lowest, highest])).all() else None


def _largest(change: Range, writers: int) -> Float[Tensor, " numbers"] | None:
    """Of each number of a slot, from what its heads erase and add; None where they may erase too little."""
    erased = torch.sigmoid(change[0][0, :writers].amin(0))
    added = torch.tanh(torch.maximum(-change[0][0, writers:], change[1][0, writers:]).amax(0))
    if bool((1 - erased == 1).any()):
        return None
    return ROOM * writers * added / -torch.expm1(writers * torch.log1p(-erased))


def _floor(machine: TuringMachine, rest: Range) -> Float[Tensor, " heads"]:
    """The least logarithm of a weight of each head, those that write first; `rest` is of beta, gate and gamma."""
    beta, _, gamma = rest[1][0].unbind(-1)
    N = log(machine.slots)
    beta, gamma = machine.heads.least_strength + softplus(beta), 1 + softplus(gamma)
    return gamma * (logsigmoid(rest[0][0, :, 1]) - 2 * beta - N - ABOVE) - N
