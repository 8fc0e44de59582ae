"""Stability of a uniform tape: multipliers of the waves around the ring of slots, from a block-circulant Jacobian."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.cells import State
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.memory.tape import TuringMachine


def wave_multipliers(dynamics: Dynamics, state: Float[Tensor, "1 size"]) -> Complex[Tensor, "waves numbers"]:
    """Return the multipliers of waves around a uniform tape, the largest first in each wave.

    A step changes a perturbation of one slot in the same way for every slot, rotated around the ring. In these numbers
    the Jacobian is block-circulant: the Fourier transform of one column of blocks yields all eigenvalues except those
    of perturbations that are equal in all slots.
    """
    machine = dynamics.cell
    assert isinstance(machine, TuringMachine)
    push, _ = dynamics.residual_products(state)
    columns = []
    for number in range(numbers_per_slot(machine)):
        perturbation = dynamics.flatten(_perturb_first_slot(dynamics.unflatten(torch.zeros_like(state)), number))
        columns.append(_by_slot(dynamics.unflatten(push(perturbation) + perturbation))[0])
    response = torch.stack(columns, 2).cpu().double()  # (slots, numbers out, numbers in)
    values = torch.linalg.eigvals(torch.fft.fft(response, dim=0)[1:])
    return values.gather(1, values.abs().argsort(1, descending=True))


def numbers_per_slot(machine: TuringMachine) -> int:
    """Return the size of a slot's content plus one weight for each head."""
    return prod(machine.slot_shape) + machine.read_heads + machine.write_heads


def _by_slot(state: State) -> Float[Tensor, "batch slots numbers"]:
    return torch.cat([state.memory.flatten(2), state.read_weights.mT, state.write_weights.mT], 2)


def _perturb_first_slot(zero: State, number: int) -> State:
    """Return a zero state with a 1 at one number of the first slot, in the order of `_by_slot`."""
    content, readers = zero.memory[0, 0].numel(), zero.read_weights.shape[1]
    memory, read, write = (part.clone() for part in (zero.memory, zero.read_weights, zero.write_weights))
    if number < content:
        memory[0, 0].view(-1)[number] = 1
    elif number < content + readers:
        read[0, number - content, 0] = 1
    else:
        write[0, number - content - readers, 0] = 1
    return zero._replace(memory=memory, read_weights=read, write_weights=write)
