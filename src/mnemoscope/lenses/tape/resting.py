"""Where a Turing machine can be at rest."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.memory.tape import TapeState, TuringMachine


def evened(dynamics: Dynamics, states: Float[Tensor, "starts size"]) -> Float[Tensor, "starts size"]:
    """States of a Turing machine with the same in all slots, and all heads everywhere: starts from which fixed points
    may be found that the states it visits do not lead to.

    At rest at a constant input, `m = (1 - w e) m + w a` of every slot. Where one head writes, and no weight is 0, all
    slots hold a / e: nothing is remembered at rest but by the controller. The machine does not tell the slots of such a
    tape apart, and turns what is even into what is even: so does Newton's method, which has as few numbers to find as
    there are in one slot and the controller. Heads that keep their place are at rest at one slot as well, and slots
    that heads do not come to (w near 0) keep what they hold for about 1 / (w e) steps: slow points, the memory itself.

    >>> import mnemoscope as ms
    >>> from mnemoscope.networks import ntm
    >>> dynamics = ms.Dynamics(ntm(3, 8, slots=6, slot_size=4))
    >>> starts = evened(dynamics, dynamics.origin)
    >>> round(dynamics.unflatten(starts).write_weights.sum().item(), 12)
    1.0
    """
    machine = dynamics.cell
    if not isinstance(machine, TuringMachine):
        raise TypeError(f"A tape is evened in a TuringMachine, but the cell is a {type(machine).__name__}.")
    state = dynamics.unflatten(states)
    assert isinstance(state, TapeState)
    memory = state.memory.mean(1, keepdim=True).expand_as(state.memory)
    read, write = (torch.full_like(part, 1 / machine.slots) for part in (state.read_weights, state.write_weights))
    reads = memory[:, :1].expand_as(state.reads)
    return dynamics.flatten(TapeState(state.controller, memory, read, write, reads))
