"""A Turing machine whose slots are all equal, as a smaller system: the controller with one slot."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell, Layout
from mnemoscope.cells.cell import Box
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.memory.tape import TapeState, TuringMachine
from mnemoscope.memory.tape.heads import erase_and_add


class UniformState(NamedTuple):
    """State of a machine with a uniform tape."""

    controller: Any
    slot: Float[Tensor, "batch ..."]
    """(batch, *slot_shape): the content of every slot, which is also what every head reads."""

    @classmethod
    def from_tape(cls, state: TapeState) -> UniformState:
        """Return the controller of a machine with the mean of its slots."""
        return cls(state.controller, state.memory.mean(1))


class UniformTape(Cell):
    """A machine while all slots are equal and every head spreads over all of them, with weights 1 / slots.

    A head cannot distinguish equal slots, so they stay equal whatever the input. What remains is a controller with one
    slot, however long the tape is.

    >>> from mnemoscope.networks import ntm
    >>> cell = UniformTape(ntm(3, 8, slots=100, slot_size=4))
    >>> cell(torch.zeros(2, 3), cell.initial_state(2)).slot.shape
    torch.Size([2, 4])
    """

    def __init__(self, machine: TuringMachine) -> None:
        super().__init__()
        self.machine = machine
        self.input_size = machine.input_size

    def initial_state(self, batch: int) -> UniformState:
        return UniformState.from_tape(self.machine.initial_state(batch))

    def full_state(self, state: UniformState) -> TapeState:
        """Return the state of the machine."""
        machine, slot = self.machine, state.slot
        memory = slot.unsqueeze(1).expand(-1, machine.slots, *machine.slot_shape)
        read, write = (
            slot.new_full((len(slot), heads, machine.slots), 1 / machine.slots)
            for heads in (machine.read_heads, machine.write_heads)
        )
        reads = slot.unsqueeze(1).expand(-1, machine.read_heads, *machine.slot_shape)
        return TapeState(state.controller, memory, read, write, reads)

    def forward(self, x: Float[Tensor, "batch features"], state: UniformState) -> UniformState:
        machine = self.machine
        slot = state.slot.flatten(1).unsqueeze(1)
        reads = slot.expand(-1, machine.read_heads, -1)
        controller = machine.controller(torch.cat([x, reads.flatten(1)], dim=1), state.controller)
        orders = machine.heads(machine.controller.output(controller).unflatten(1, machine.controller_shape))
        weights = slot.new_full((len(slot), machine.write_heads, 1), 1 / machine.slots)
        slot = erase_and_add(slot, weights, orders.erase, orders.add)
        return UniformState(controller, slot.squeeze(1).unflatten(1, machine.slot_shape))

    def output(self, state: UniformState) -> Float[Tensor, "batch features"]:
        return self.machine.controller.output(state.controller)

    def bounds(self, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> Box | None:
        """Return the bounds of the machine, restricted to its controller and its first slot."""
        return _restricted(self.machine.bounds(low, high), self)


class EquilibratedTape(Cell):
    """The controller of a machine with a uniform tape that is always at equilibrium with the controller.

    Each slot holds the solution of `m = m prod_h (1 - e_h / slots) + sum_h a_h / slots`. The fixed points are those of
    the machine. A long tape fills slowly, by a share e / slots per step; without this slow mode Newton's method makes
    better progress.
    """

    def __init__(self, uniform: UniformTape) -> None:
        super().__init__()
        self.uniform = uniform
        self.input_size = uniform.input_size

    def initial_state(self, batch: int) -> Any:
        return self.uniform.machine.controller.initial_state(batch)

    def with_slot(self, controller: Any) -> UniformState:
        """Return the controller together with its equilibrium slot."""
        machine = self.uniform.machine
        orders = machine.heads(machine.controller.output(controller).unflatten(1, machine.controller_shape))
        retained = (1 - orders.erase / machine.slots).prod(1)
        slot = orders.add.sum(1) / machine.slots / (1 - retained)
        return UniformState(controller, slot.unflatten(1, machine.slot_shape))

    def forward(self, x: Float[Tensor, "batch features"], state: Any) -> Any:
        return self.uniform(x, self.with_slot(state)).controller

    def output(self, state: Any) -> Float[Tensor, "batch features"]:
        return self.uniform.machine.controller.output(state)

    def bounds(self, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> Box | None:
        return _restricted(self.uniform.bounds(low, high), self)


def _restricted(box: tuple[Tensor, Tensor] | None, cell: Cell) -> Box | None:
    """Return the part of a box that belongs to a cell whose state comes first in the larger one."""
    size = Layout(cell.initial_state(1)).size
    return None if box is None else (box[0][:size], box[1][:size])


def make_uniform(dynamics: Dynamics, states: Float[Tensor, "starts size"]) -> Float[Tensor, "starts size"]:
    """Make all slots equal in states of a Turing machine, as starts for a search for fixed points.

    Visited states may not lead to these points. At rest at a constant input, every slot has `m = (1 - w e) m + w a`.
    With one write head and no weight equal to 0, all slots hold a / e: at rest only the controller remembers. Newton's
    method preserves the equality of slots, so it has only as many unknowns as one slot and the controller. Heads that
    keep their place can also rest at one slot. Slots with w near 0 keep their content for about 1 / (w e) steps: these
    slow points are the memory itself.

    >>> import mnemoscope as ms
    >>> from mnemoscope.networks import ntm
    >>> dynamics = ms.Dynamics(ntm(3, 8, slots=6, slot_size=4))
    >>> starts = make_uniform(dynamics, dynamics.origin)
    >>> round(dynamics.unflatten(starts).write_weights.sum().item(), 12)
    1.0
    """
    machine = dynamics.cell
    if not isinstance(machine, TuringMachine):
        raise TypeError(f"Only a TuringMachine has slots to make equal, but the cell is a {type(machine).__name__}.")
    return dynamics.flatten(UniformTape(machine).full_state(UniformState.from_tape(dynamics.unflatten(states))))
