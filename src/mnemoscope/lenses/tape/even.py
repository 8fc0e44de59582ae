"""Fixed points of a Turing machine of any size: those at which all slots hold the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float, Int
from mnemoscope.cells import Cell, Layout, State
from mnemoscope.cells.cell import Box
from mnemoscope.lenses.attractors.starts import draw_starts, seeded_generator
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.result import MARGIN, FixedPoints
from mnemoscope.lenses.fixed_points.starts import Adaptive
from mnemoscope.memory.tape import TapeState, TuringMachine
from mnemoscope.memory.tape.heads import written


class EvenState(NamedTuple):
    """All that an even tape leaves of a state."""

    controller: Any
    slot: Float[Tensor, "batch ..."]
    """(batch, *slot_shape): what every slot holds, and what every head reads."""


class EvenTape(Cell):
    """A machine while all slots hold the same and all heads are everywhere: each weight is 1 / slots.

    No head can then tell slots apart, so that it stays so, whatever comes in; what is left is a controller with one
    slot, however long the tape is.

    >>> from mnemoscope.networks import ntm
    >>> cell = EvenTape(ntm(3, 8, slots=100, slot_size=4))
    >>> cell(torch.zeros(2, 3), cell.initial_state(2)).slot.shape
    torch.Size([2, 4])
    """

    def __init__(self, machine: TuringMachine) -> None:
        super().__init__()
        self.machine = machine
        self.input_size = machine.input_size

    def initial_state(self, batch: int) -> EvenState:
        state = self.machine.initial_state(batch)
        return EvenState(state.controller, state.memory.mean(1))

    def whole(self, state: EvenState) -> TapeState:
        """The machine's state."""
        machine, slot = self.machine, state.slot
        memory = slot.unsqueeze(1).expand(-1, machine.slots, *machine.slot_shape)
        read, write = (
            slot.new_full((len(slot), heads, machine.slots), 1 / machine.slots)
            for heads in (machine.read_heads, machine.write_heads)
        )
        reads = slot.unsqueeze(1).expand(-1, machine.read_heads, *machine.slot_shape)
        return TapeState(state.controller, memory, read, write, reads)

    def forward(self, x: Float[Tensor, "batch features"], state: EvenState) -> EvenState:
        machine = self.machine
        slot = state.slot.flatten(1).unsqueeze(1)
        reads = slot.expand(-1, machine.read_heads, -1)
        inner = machine.controller(torch.cat([x, reads.flatten(1)], dim=1), state.controller)
        orders = machine.heads(machine.controller.output(inner).unflatten(1, machine.shown_shape))
        weights = slot.new_full((len(slot), machine.write_heads, 1), 1 / machine.slots)
        slot = written(slot, weights, orders.erase, orders.add)
        return EvenState(inner, slot.squeeze(1).unflatten(1, machine.slot_shape))

    def output(self, state: EvenState) -> Float[Tensor, "batch features"]:
        return self.machine.controller.output(state.controller)

    def bounds(self, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> Box | None:
        """The machine's, whose first slot is the only one."""
        box = self.machine.bounds(low, high)
        size = Layout(self.initial_state(1)).size
        return None if box is None else (box[0][:size], box[1][:size])


class RestingTape(Cell):
    """The controller of a machine with an even tape that is always at rest with it: each slot holds what heads would
    fill it with in the end, `m = m prod_h (1 - e_h / slots) + sum_h a_h / slots`.

    It rests where the machine does. A tape of many slots fills slowly, by a share e / slots in a step; here there is
    nothing slow, which lets Newton's method get on.
    """

    def __init__(self, even: EvenTape) -> None:
        super().__init__()
        self.even = even
        self.input_size = even.input_size

    def initial_state(self, batch: int) -> Any:
        return self.even.machine.controller.initial_state(batch)

    def filled(self, controller: Any) -> EvenState:
        """With the slot that a controller at rest leads to."""
        machine = self.even.machine
        orders = machine.heads(machine.controller.output(controller).unflatten(1, machine.shown_shape))
        left = (1 - orders.erase / machine.slots).prod(1)
        slot = orders.add.sum(1) / machine.slots / (1 - left)
        return EvenState(controller, slot.unflatten(1, machine.slot_shape))

    def forward(self, x: Float[Tensor, "batch features"], state: Any) -> Any:
        return self.even(x, self.filled(state)).controller

    def output(self, state: Any) -> Float[Tensor, "batch features"]:
        return self.even.machine.controller.output(state)

    def bounds(self, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> Box | None:
        box = self.even.bounds(low, high)
        size = Layout(self.initial_state(1)).size
        return None if box is None else (box[0][:size], box[1][:size])


@dataclass(frozen=True)
class EvenRests:
    """Fixed points of a machine at which all slots hold the same, and whether it would stay there.

    A small disturbance that is the same in all slots stays so; one that is not is a sum of waves along the ring of
    slots, each of which goes its own way: all multipliers of the whole state are known, without its Jacobian.
    """

    even: FixedPoints
    """Of the controller and one slot: `EvenTape`."""
    apart: Complex[Tensor, "points waves numbers"]
    """Multipliers of waves 1, 2, ... round the tape, of what is in a slot and of the weights of all heads; the largest
    first."""
    size: int
    """Numbers in the state of the machine; the multipliers that are not here are 0."""

    def __len__(self) -> int:
        return len(self.even)

    @property
    def unstable_apart(self) -> Int[Tensor, " points"]:
        """In how many directions slots of each point grow apart; `even.unstable` are those of all slots together."""
        return (self.apart.abs().log() > MARGIN).sum((1, 2))

    @property
    def unstable(self) -> Int[Tensor, " points"]:
        """Unstable directions of each point, of all of the machine's state."""
        return self.even.unstable.to(self.unstable_apart) + self.unstable_apart

    @property
    def largest(self) -> Float[Tensor, "points 2"]:
        """By what a step multiplies the least stable disturbance: of all slots together, and of slots apart."""
        apart = torch.nn.functional.pad(self.apart.abs().flatten(1), (1, 0))  # of a single slot there is no wave
        return torch.stack([self.even.eigenvalues.abs().amax(1), apart.amax(1)], 1)

    def summary(self) -> str:
        """The result in words."""
        where = f"On a tape with the same in all slots (of a state of {self.size:,} numbers)"
        others = "Fixed points with slots that differ were not looked for."
        if not len(self):
            return f"{where} no fixed point was found: the search has missed it, or the machine never rests. {others}"
        stable = int((self.unstable == 0).sum())
        found = f"{len(self)} fixed point{'s' * (len(self) > 1)} found, {stable or 'none'} of them stable"
        together, apart = self.largest[int(self.unstable.argmin())].tolist()
        least = (
            f"At the {'most stable' if len(self) > 1 else 'only'} one a step multiplies the least stable disturbance "
            f"by {together:.4g} where it is the same in all slots, and by {apart:.4g} where slots differ."
        )
        return f"{where}, {found}. {least} {self.even.completeness} {others}"


SMALL = 128
"""Numbers of a controller and a slot up to which points are looked for in all ways there are."""


def even_rests(
    dynamics: Dynamics,
    states: Float[Tensor, "states size"] | None = None,
    *,
    number: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> EvenRests:
    """The fixed points at which all slots of a machine hold the same, in time that hardly depends on their number.

    Where one head writes, and no weight is 0, there are no others (see `evened`); else there may be. A machine of the
    published size, 4,821 numbers, takes half a minute of one core.

    Args:
        dynamics: a `TuringMachine` at a constant input.
        states: of the machine, whose controllers are starts of the search too.
        number: starts of each wave of the search; by default the more the smaller the controller is, from 4 to 64.
        seed: of the search.
        progress: show a progress bar.

    >>> import mnemoscope as ms
    >>> from mnemoscope.networks import ntm
    >>> rests = even_rests(ms.Dynamics(ntm(3, 8, slots=50, slot_size=4)))
    >>> len(rests), rests.apart.shape  # 49 waves of 4 numbers and 2 weights in each slot
    (1, torch.Size([1, 49, 6]))

    """
    machine = dynamics.cell
    if not isinstance(machine, TuringMachine):
        raise TypeError(f"Only a TuringMachine has a tape, but the cell is a {type(machine).__name__}.")
    even = EvenTape(machine)
    resting = RestingTape(even)
    own, reduced = (
        Dynamics(cell, dynamics.input[0], dtype=dynamics.dtype, device=dynamics.device) for cell in (resting, even)
    )
    number = max(4, min(64, 1024 // own.size)) if number is None else number
    pool = None if states is None else states[:, : own.size].to(own.origin)  # the controller comes first
    fp = find_fixed_points(own, Adaptive(pool, number=number, patience=1), seed=seed, progress=progress)
    # some points are met only by way of a slot that is still filling
    starts = [reduced.flatten(resting.filled(own.unflatten(fp.states.to(own.origin))))]
    if states is not None:
        given = dynamics.unflatten(states.to(dynamics.origin))
        starts.append(reduced.flatten(EvenState(given.controller, given.memory.mean(1))))
    if reduced.size <= SMALL or not sum(map(len, starts)):
        starts.append(draw_starts(reduced, number, seeded_generator(seed)))
    search = torch.cat(starts)
    fp = find_fixed_points(
        reduced, Adaptive(search, number=number, patience=1) if reduced.size <= SMALL else search,
        seed=seed, progress=progress,
    )  # fmt: skip
    whole = dynamics.flatten(even.whole(reduced.unflatten(fp.states.to(own.origin))))
    none = torch.zeros(0, machine.slots - 1, _numbers(machine), dtype=torch.complex128)
    apart = torch.stack([waves(dynamics, one[None]) for one in whole]) if len(fp) else none
    return EvenRests(replace(fp, starts=None, slow=None), apart, dynamics.size)


def waves(dynamics: Dynamics, state: Float[Tensor, "1 size"]) -> Complex[Tensor, "waves numbers"]:
    """Multipliers of waves round an even tape, the largest first in each.

    What a step makes of a disturbance in one slot is the same for each, only turned round the ring: the Jacobian in
    these numbers is block-circulant, and the Fourier transform of one column of blocks has all its eigenvalues but
    those of what is the same in all slots.
    """
    machine = dynamics.cell
    assert isinstance(machine, TuringMachine)
    push, _ = dynamics.residual_products(state)
    columns = []
    for number in range(_numbers(machine)):
        disturbance = dynamics.flatten(_disturbed(dynamics.unflatten(torch.zeros_like(state)), number))
        columns.append(_of_slots(dynamics.unflatten(push(disturbance) + disturbance))[0])
    response = torch.stack(columns, 2).cpu().double()  # (slots, numbers out, numbers in)
    values = torch.linalg.eigvals(torch.fft.fft(response, dim=0)[1:])
    return values.gather(1, values.abs().argsort(1, descending=True))


def _numbers(machine: TuringMachine) -> int:
    """Of every slot: its content, and the weights of all heads."""
    return prod(machine.slot_shape) + machine.read_heads + machine.write_heads


def _of_slots(state: State) -> Float[Tensor, "batch slots numbers"]:
    return torch.cat([state.memory.flatten(2), state.read_weights.mT, state.write_weights.mT], 2)


def _disturbed(zero: State, number: int) -> State:
    """1 at a number of the first slot."""
    content, readers = zero.memory[0, 0].numel(), zero.read_weights.shape[1]
    memory, read, write = (part.clone() for part in (zero.memory, zero.read_weights, zero.write_weights))
    if number < content:
        memory[0, 0].view(-1)[number] = 1
    elif number < content + readers:
        read[0, number - content, 0] = 1
    else:
        write[0, number - content - readers, 0] = 1
    return zero._replace(memory=memory, read_weights=read, write_weights=write)
