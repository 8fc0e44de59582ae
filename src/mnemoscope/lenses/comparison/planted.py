"""Families of conjugate systems: the same dynamics in other coordinates and other numbers of units."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell
from mnemoscope.lenses.slow_manifold.planted import planted_cycle, planted_flat, planted_points, planted_ring

LATENT = 4
"""Numbers of the state of every system: two or fewer with the planted dynamics, the others decay."""
DYNAMICS: dict[str, Callable[[], Cell]] = {
    "ring": lambda: planted_ring(0.0, size=LATENT),
    "line": lambda: planted_flat(0.995, size=LATENT),
    "two points": lambda: planted_points(torch.tensor([[-1.0], [1.0]]), pull=0.1, size=LATENT),
    "cycle": lambda: planted_cycle(0.2, size=LATENT),
    "fast cycle": lambda: planted_cycle(0.5, size=LATENT),
}
"""Maps with known dynamics, by name."""


def planted_activity(
    dynamics: str,
    units: int,
    seed: int,
    *,
    steps: int = 60,
    trials: int = 40,
    bend: float = 0.0,
    noise: float = 0.0,
) -> Float[Tensor, "time trials units"]:
    """Return trajectories of a planted system from random starts, seen by units with random weights.

    Two calls with the same dynamics give conjugate systems: the states of one are those of the other in other
    coordinates, with other starts. The coordinates are orthonormal directions among the units, after each number x of
    the state became `x + bend x^3`, which is no linear change of coordinates. Noise has this standard deviation.
    """
    generator = torch.Generator().manual_seed(1000 + seed)
    cell = DYNAMICS[dynamics]()
    states = [torch.randn(trials, LATENT, generator=generator, dtype=torch.float64)]
    for _ in range(steps - 1):
        states.append(cell(states[0].new_zeros(trials, 1), states[-1]))
    latent = torch.stack(states)
    directions = torch.linalg.qr(torch.randn(units, LATENT, generator=generator, dtype=torch.float64))[0]
    activity = (latent + bend * latent**3) @ directions.T
    return activity + noise * torch.randn(activity.shape, generator=generator, dtype=torch.float64)
