"""From a system and, where it is given, a trajectory to an energy report."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Cell, EpisodicMap, EpisodicMemory, EpisodicState, Model, adapt
from mnemoscope.lenses.energy.lyapunov import TOLERANCE
from mnemoscope.lenses.energy.of_memories import flow_report, map_report
from mnemoscope.lenses.energy.of_networks import recurrence_report
from mnemoscope.lenses.energy.recurrence import elman_recurrence
from mnemoscope.lenses.energy.report import EnergyDescent
from mnemoscope.lenses.energy.simulating import checked_states


def energy_descent(
    system: Cell | nn.Module,
    trajectory: Float[Tensor, "time *batch size"] | EpisodicState | None = None,
    *,
    input: Float[Tensor, " features"] | None = None,
    delayed: Float[Tensor, "*batch features"] | None = None,
    hold: int = 1,
    times: Float[Tensor, " time"] | None = None,
    steps: int = 60,
    starts: int = 16,
    seed: int = 0,
    tolerance: float = TOLERANCE,
) -> EnergyDescent:
    """What energy a network has, whether and why it falls, and where it does not (Karuvally et al. 2023, Eq 3).

    Args:
        system: an `EpisodicMemory` (in continuous time), an `EpisodicMap`, an Elman cell or a torch.nn.RNN of one layer
            (tanh, relu, logistic, linear). Other networks have no known energy.
        trajectory: states (time, batch, size) or (time, size) of the system's own form; of an `EpisodicMemory` an
            `EpisodicState` of such tensors. By default it is simulated from random states.
        input: the constant input; zeros by default.
        delayed: of an `EpisodicMap`: V_d frozen at these values, (features,) or (batch, features).
        hold: of an `EpisodicMap`: steps for which V_d stays before it takes the rates again (from the first state on);
            1 is the map itself.
        times: of an `EpisodicMemory`: when the states were, or are wanted; by default ten of its time constants.
        steps: of a simulated trajectory.
        starts: number of simulated trajectories.
        seed: of their random starts, and of the search for a counter-example.
        tolerance: how large an antisymmetric part may be, relative to its matrix, to count as rounding.

    >>> from mnemoscope.cells import EpisodicMemory
    >>> turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])  # Phi^T rotates by 90 degrees
    >>> memory = EpisodicMemory(torch.eye(2), turn).discrete()
    >>> energy_descent(memory, torch.tensor([[0.8, 0.1], [0.56, 0.76]])).guaranteed
    False
    >>> energy_descent(memory, delayed=torch.tensor([1.0, 0.0])).kind
    'frozen'

    """
    check_whole(1, steps=steps, starts=starts, hold=hold)
    if isinstance(system, Model):
        raise TypeError("A Model reads its cell out; look at the cell itself: energy_report(model.cell).")
    cell = adapt(system)
    plan = (steps, starts, torch.Generator().manual_seed(seed), tolerance)
    if not isinstance(cell, EpisodicMap) and (delayed is not None or hold != 1):
        raise ValueError(f"V_d can be frozen or held of an EpisodicMap, not of a {type(cell).__name__}.")
    if not isinstance(cell, EpisodicMemory) and times is not None:
        raise ValueError(f"A {type(cell).__name__} moves in steps; times belong to an EpisodicMemory.")
    if isinstance(cell, EpisodicMemory):
        return flow_report(cell, trajectory, input, times, *plan)
    if isinstance(trajectory, tuple):
        raise ValueError("A trajectory of this system is one tensor (time, batch, size), but a tuple was given.")
    if isinstance(cell, EpisodicMap):
        return map_report(cell, trajectory, input, delayed, hold, *plan)
    recurrence = elman_recurrence(cell, input)
    name = f"{type(cell).__name__} ({recurrence.sigma.name}, {recurrence.size} units)"
    states = None if trajectory is None else checked_states(trajectory, recurrence.size)
    return recurrence_report(recurrence, name, states, *plan)
