"""Search for the fixed points of a Turing machine of any size at which all slots are equal."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.starts import Adaptive, draw_starts, seeded_generator
from mnemoscope.lenses.tape.result import UniformFixedPoints
from mnemoscope.lenses.tape.uniform import EquilibratedTape, UniformState, UniformTape
from mnemoscope.lenses.tape.waves import numbers_per_slot, wave_multipliers
from mnemoscope.memory.tape import TuringMachine

SMALL = 128
"""Numbers in a controller and a slot up to which the adaptive search also runs on both together."""


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
        given = dynamics.unflatten(states.to(dynamics.origin))
        starts.append(reduced.flatten(UniformState(given.controller, given.memory.mean(1))))
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
