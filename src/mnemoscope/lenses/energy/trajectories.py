"""Trajectories, given or simulated, along which an energy is computed."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.lagrangians import Lagrangian

FAR = 1e6
"""Size above which rates count as diverging."""
SPREAD = 1.5
"""Standard deviation of random fields."""


def simulate(step: Callable[[Tensor], Tensor], start: Tensor, steps: int) -> Tensor:
    """Return the rates (time, batch, size), truncated before any of them diverges."""
    run = [start]
    for _ in range(steps):
        following = step(run[-1])
        if not bool((following.abs() < FAR).all()) and len(run) > 2:
            break
        run.append(following)
    return torch.stack(run)


def random_rates(sigma: Lagrangian, shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Return the rates of random fields."""
    return sigma(SPREAD * torch.randn(*shape, generator=generator).double())


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


def state_precision(states: Tensor | None) -> float:
    """Return the machine epsilon of given states, or of float64 for simulated ones."""
    return torch.finfo(torch.float64 if states is None else states.dtype).eps


def step_deviation(step: Callable[[Tensor], Tensor], rates: Tensor, given: Tensor | None) -> float:
    """Return how far given rates deviate from one step of the system, relative to their size; 0 if simulated."""
    if given is None:
        return 0.0
    off = (step(rates[:-1]) - rates[1:]).abs().amax()
    deviation = float(off / rates.abs().amax().clamp_min(1e-300))
    return deviation if isfinite(deviation) else inf
