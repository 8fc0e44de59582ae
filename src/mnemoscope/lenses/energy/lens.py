"""Find an energy of a network, and follow it along given or simulated trajectories."""

from __future__ import annotations

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import EpisodicMap, EpisodicMemory, EpisodicState, Network, as_cell
from mnemoscope.lenses.energy.episodic_flow import flow_descent
from mnemoscope.lenses.energy.lyapunov import TOLERANCE
from mnemoscope.lenses.energy.recurrence import elman_recurrence
from mnemoscope.lenses.energy.result import EnergyDescent
from mnemoscope.lenses.energy.steps import elman_descent, map_descent
from mnemoscope.lenses.energy.trajectories import Plan, check_states


@show_slow("energy")
def energy_descent(
    system: Network,
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
    """Find the energy of a network, whether and why it falls, and where it rises (Karuvally et al. 2023, Eq 3).

    Args:
        system: an `EpisodicMemory` (in continuous time), an `EpisodicMap`, an Elman cell or a torch.nn.RNN of one layer
            (tanh, relu, logistic, linear). Other networks have no known energy.
        trajectory: states (time, batch, size) or (time, size), the former (batch, time, size) if the network is a
            torch.nn.RNN with `batch_first`; for an `EpisodicMemory` an `EpisodicState` of such
            tensors. By default trajectories are simulated from random states.
        input: constant input; zeros by default.
        delayed: for an `EpisodicMap`: values at which V_d is frozen, (features,) or (batch, features).
        hold: for an `EpisodicMap`: number of steps between updates of V_d (from the first state on); 1 is the map
            itself.
        times: for an `EpisodicMemory`: times of the states; by default up to ten times its longest time constant.
        steps: steps of a simulated trajectory.
        starts: number of simulated trajectories.
        seed: seed of their random starts, and of the search for a counter-example.
        tolerance: largest antisymmetric part, relative to its matrix, with which a matrix counts as symmetric.

    >>> import torch
    >>> from mnemoscope.cells import EpisodicMemory
    >>> turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])  # Phi^T rotates by 90 degrees
    >>> memory = EpisodicMemory(torch.eye(2), turn).discrete()
    >>> energy_descent(memory, torch.tensor([[0.8, 0.1], [0.56, 0.76]])).guaranteed
    False
    >>> energy_descent(memory, delayed=torch.tensor([1.0, 0.0])).kind
    'frozen'

    """
    check_whole(1, steps=steps, starts=starts, hold=hold)
    cell = as_cell(system)
    if cell.batch_first and isinstance(trajectory, Tensor) and trajectory.dim() == 3:
        trajectory = trajectory.transpose(0, 1)
    plan = Plan(steps, starts, seeded_generator(seed), tolerance)
    if not isinstance(cell, EpisodicMap) and (delayed is not None or hold != 1):
        raise ValueError(f"delayed and hold belong to an EpisodicMap, but the system is a {type(cell).__name__}.")
    if not isinstance(cell, EpisodicMemory) and times is not None:
        raise ValueError(f"times belong to an EpisodicMemory, but a {type(cell).__name__} moves in steps.")
    if isinstance(cell, EpisodicMemory):
        return flow_descent(cell, trajectory, input, times, plan)
    if isinstance(trajectory, tuple):
        raise ValueError("A trajectory of this system is one tensor (time, batch, size), but a tuple was given.")
    if isinstance(cell, EpisodicMap):
        return map_descent(cell, trajectory, input, delayed, hold, plan)
    recurrence = elman_recurrence(cell, input)
    name = f"{type(cell).__name__} ({recurrence.sigma.name}, {recurrence.size} units)"
    states = None if trajectory is None else check_states(trajectory.cpu(), recurrence.size)
    return elman_descent(recurrence, name, states, plan)
