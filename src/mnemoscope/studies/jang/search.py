"""Search for the fixed points of a trained flip-flop reservoir."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.cells import EchoState
from mnemoscope.lenses import Dynamics, FixedPoints, find_fixed_points
from mnemoscope.lenses.fixed_points.composite_starts import Adaptive, Several
from mnemoscope.lenses.fixed_points.starts import FromOutputs, FromTrajectories
from mnemoscope.studies.jang.reservoirs import clamped_states


def search_reservoir(
    cell: EchoState, inputs: Tensor, memories: Tensor, starts: int, seed: int, progress: bool
) -> FixedPoints:
    """Search for fixed points from memories, trajectories and random outputs.

    The starts are the memories, the midpoints of the cube's edges, faces and so on, states of trajectories with and
    without noise, and random outputs; then midpoints between the points found.
    """
    share, dynamics = max(8, starts // 10), Dynamics(cell)
    midpoints = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0])] * cell.output_size)
    first = Several(
        [
            dynamics.origin,
            memories.double(),
            clamped_states(cell, midpoints.view(-1, cell.output_size)).double(),
            FromTrajectories(inputs, share, rest=25),
            FromTrajectories(inputs, share, noise=0.3, rest=25),
            FromOutputs(share, -1.0, 1.0),
            FromOutputs(share, -2.0, 2.0),
        ]
    )
    return find_fixed_points(dynamics, Adaptive(first, max_starts=starts), seed=seed, progress=progress)
