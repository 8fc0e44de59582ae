"""Fixed points of a Turing machine of any size at which all slots are equal, and their stability."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.cells import State
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.composite_starts import Adaptive
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.starts import draw_starts
from mnemoscope.lenses.tape.result import UniformFixedPoints
from mnemoscope.lenses.tape.uniform import EquilibratedTape, UniformState, UniformTape
from mnemoscope.memory.tape import TuringMachine

SMALL = 128
"""Numbers in a controller and a slot up to which the adaptive search also runs on both together."""


@show_slow("fixed points")
def find_uniform_fixed_points(
    dynamics: Dynamics,
    states: Float[Tensor, "states size"] | None = None,
    *,
    number: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> UniformFixedPoints:
    """Find the fixed points at which all slots of a machine are equal, in time that hardly depends on their number.

    With one write head and no weight equal to 0 there are no other fixed points (see `make_uniform`); otherwise there
    may be. A machine of the published size, 4,821 numbers, takes half a minute on one core.

    Args:
        dynamics: a `TuringMachine` at a constant input.
        states: states of the machine; their controllers are further starts of the search.
        number: starts in each wave of the search; by default 4 to 64, more for smaller controllers.
        seed: of the search.
        progress: show a progress bar.

    >>> import mnemoscope as ms
    >>> from mnemoscope.networks import ntm
    >>> found = find_uniform_fixed_points(ms.Dynamics(ntm(3, 8, slots=50, slot_size=4)))
    >>> len(found), found.wave_multipliers.shape  # 49 waves of 4 numbers and 2 weights in each slot
    (1, torch.Size([1, 49, 6]))

    """
    machine = dynamics.cell
    if not isinstance(machine, TuringMachine):
        raise TypeError(f"Only a TuringMachine has a tape, but the cell is a {type(machine).__name__}.")
    uniform = UniformTape(machine)
    equilibrated = EquilibratedTape(uniform)
    controller, reduced = (
        Dynamics(cell, dynamics.input[0], dtype=dynamics.dtype, device=dynamics.device)
        for cell in (equilibrated, uniform)
    )
    number = max(4, min(64, 1024 // controller.size)) if number is None else number
    # the numbers of the controller come first in a state
    pool = None if states is None else states[:, : controller.size].to(controller.origin)
    fp = find_fixed_points(controller, Adaptive(pool, number=number, patience=1), seed=seed, progress=progress)
    # some points are reached only through a slot that is not at equilibrium
    starts = [reduced.flatten(equilibrated.with_slot(controller.unflatten(fp.states.to(controller.origin))))]
    if states is not None:
        starts.append(reduced.flatten(UniformState.from_tape(dynamics.unflatten(states.to(dynamics.origin)))))
    if reduced.size <= SMALL or not sum(map(len, starts)):
        starts.append(draw_starts(reduced, number, seeded_generator(seed)))
    search = torch.cat(starts)
    if reduced.size <= SMALL:
        search = Adaptive(search, number=number, patience=1)
    fp = find_fixed_points(reduced, search, seed=seed, progress=progress)
    full = dynamics.flatten(uniform.full_state(reduced.unflatten(fp.states.to(controller.origin))))
    if len(fp):
        multipliers = torch.stack([wave_multipliers(dynamics, state[None]) for state in full])
    else:
        multipliers = torch.zeros(0, machine.slots - 1, numbers_per_slot(machine), dtype=torch.complex128)
    return UniformFixedPoints(replace(fp, starts=None, slow=None), multipliers, dynamics.size)


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
