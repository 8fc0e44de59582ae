"""Trajectories, given or simulated, along which an energy is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float

FAR = 1e6
"""Size above which rates count as diverging."""
SPREAD = 1.5
"""Standard deviation of random fields."""


@dataclass(frozen=True)
class Plan:
    """How trajectories are simulated, and the relative asymmetry up to which a matrix counts as symmetric."""

    steps: int
    starts: int
    generator: torch.Generator
    tolerance: float

    def random_fields(self, number: int, size: int) -> Float[Tensor, "number size"]:
        """Return random V_f, V_h, or inputs of a nonlinearity."""
        return SPREAD * torch.randn(number, size, generator=self.generator).double()


def simulate(step: Callable[[list[Tensor]], Tensor], start: Tensor, steps: int) -> Tensor:
    """Return rates (time, batch, size) until one of them diverges; `step` takes the list of the earlier rates."""
    run = [start]
    for _ in range(steps):
        following = step(run)
        if not bool((following.abs() < FAR).all()) and len(run) > 2:
            break
        run.append(following)
    return torch.stack(run)


def check_states(trajectory: Tensor, size: int) -> Float[Tensor, "time batch size"]:
    """Return a trajectory (time, batch, size) or (time, size) with a batch dimension; raise if it is invalid."""
    if not isinstance(trajectory, Tensor) or trajectory.dim() not in (2, 3) or trajectory.shape[-1] != size:
        shape = tuple(trajectory.shape) if isinstance(trajectory, Tensor) else type(trajectory).__name__
        raise ValueError(f"A trajectory must be (time, batch, {size}) or (time, {size}), but is {shape}.")
    if len(trajectory) < 2:
        raise ValueError("A trajectory needs at least two successive states.")
    if not trajectory.is_floating_point() or not torch.isfinite(trajectory).all():
        raise ValueError("A trajectory must consist of real and finite numbers.")
    states = trajectory.detach().cpu()
    return states[:, None] if states.dim() == 2 else states


def step_deviation(following: Tensor, rates: Tensor) -> float:
    """Return how far given rates are from those one step after each of them, relative to their size."""
    deviation = float((following - rates[1:]).abs().amax() / rates.abs().amax().clamp_min(1e-300))
    return deviation if isfinite(deviation) else inf
