"""Where an energy rises: a search over simulated trajectories, and for orbits that return to where they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float

MOST_PERIOD = 60
"""Longest period that is looked for."""
CLOSE = 1e-9
"""A state has returned where it differs by less than this share of the size of states."""
FAR = 1e6
"""Rates beyond this size count as on their way to infinity."""


@dataclass(frozen=True)
class Orbit:
    """Rates that return: after the last of them comes the first again."""

    rates: Float[Tensor, "period size"]


def periodic_orbit(
    step: Callable[[Tensor], Tensor], starts: Float[Tensor, "starts size"], steps: int = 3000
) -> Orbit | None:
    """The shortest orbit of two to `MOST_PERIOD` states that is found by waiting; None: none was found.

    On an orbit that is no fixed point, no function of the state can fall at every step.

    >>> orbit = periodic_orbit(lambda g: torch.tanh(-2 * g), torch.tensor([[0.1]]).double())
    >>> orbit.rates.shape  # it flips
    torch.Size([2, 1])
    """
    g = starts
    for _ in range(steps):
        g = step(g)
    g = g[(g.abs() < FAR).all(1)]  # NaN is not below
    if not len(g):
        return None
    seen = [g]
    for _ in range(MOST_PERIOD):
        seen.append(step(seen[-1]))
    path = torch.stack(seen)  # (time, starts, size)
    size = path.abs().amax((0, 2)) + 1e-300
    back = (path[1:] - path[0]).abs().amax(2) <= CLOSE * size  # (period - 1, starts)
    moving = (path[1] - path[0]).abs().amax(1) > 1e4 * CLOSE * size
    returns = back.any(0) & moving
    if not bool(returns.any()):
        return None
    periods = torch.where(returns, back.int().argmax(0) + 1, MOST_PERIOD + 1)
    which = int(periods.argmin())
    return Orbit(path[: int(periods[which]), which].clone())
