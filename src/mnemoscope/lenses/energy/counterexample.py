"""Counter-examples to descent: the largest rise of an energy in trajectories, and periodic orbits."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.energy.bregman import ROUNDING
from mnemoscope.lenses.energy.terms import Energy
from mnemoscope.lenses.energy.trajectories import FAR

STARTS = 512
"""Random starts of the search for a rise."""
STEPS = 40
"""Steps from each of these starts."""
ORBIT_STARTS = 64
"""States after these steps from which an orbit is searched."""
MOST_PERIOD = 60
"""Longest period of an orbit that is searched."""
CLOSE = 1e-9
"""A state has returned if it differs by less than this share of the size of the states."""


def largest_rise(
    *runs: tuple[Tensor, Energy, float], delayed: Callable[[Tensor], Tensor] | None = None
) -> dict[str, Tensor]:
    """Return rates, energies, and V_d if it is not the rates, before and after the largest rise in these runs.

    Each run is (rates, energy, machine epsilon). The result is empty if no energy rises by more than rounding. An
    energy of two successive states has one time less than the rates, and its rise spans three states.
    """
    found: dict[str, Tensor] = {}
    most = 0.0
    for rates, terms, precision in runs:
        energy, size = terms.total, terms.size
        change = energy.diff(dim=0)
        change = torch.where(torch.isfinite(change), change, -inf)
        change = torch.where(change > ROUNDING * precision * (size[1:] + size[:-1]), change, -inf)
        if change.numel() and float(change.max()) > most:
            most, at = float(change.max()), int(change.argmax())
            step, member = divmod(at, change.shape[1])
            states = slice(step, step + 2 + len(rates) - len(energy))
            found = {"rise": rates[states, member].clone(), "rise_energy": energy[step : step + 2, member].clone()}
            if delayed is not None:
                found["rise_delayed"] = delayed(rates)[states, member].clone()
    return found


def periodic_orbit(
    step: Callable[[Tensor], Tensor], starts: Float[Tensor, "starts size"], steps: int = 3000
) -> Float[Tensor, "period size"] | None:
    """Return the shortest orbit of two to `MOST_PERIOD` states that simulation finds, or None.

    On an orbit that is no fixed point, no function of the state can fall at every step.

    >>> orbit = periodic_orbit(lambda g: torch.tanh(-2 * g), torch.tensor([[0.1]]).double())
    >>> orbit.shape  # it flips
    torch.Size([2, 1])
    """
    g = starts
    for _ in range(steps):
        g = step(g)
    g = g[(g.abs() < FAR).all(1)]  # drops NaN too
    if not len(g):
        return None
    run = [g]
    for _ in range(MOST_PERIOD):
        run.append(step(run[-1]))
    path = torch.stack(run)  # (time, starts, size)
    size = path.abs().amax((0, 2)) + 1e-300
    back = (path[1:] - path[0]).abs().amax(2) <= CLOSE * size  # (period - 1, starts)
    moving = (path[1] - path[0]).abs().amax(1) > 1e4 * CLOSE * size
    returns = back.any(0) & moving
    if not bool(returns.any()):
        return None
    periods = torch.where(returns, back.int().argmax(0) + 1, MOST_PERIOD + 1)
    shortest = int(periods.argmin())
    return path[: int(periods[shortest]), shortest].clone()
