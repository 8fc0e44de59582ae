"""Let states settle until their fast directions have decayed and only the slow drift is left."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.dynamics import Dynamics

PLATEAU = 0.7
"""The speed is on its plateau if this share of it is left after twice the time."""
NEGLIGIBLE = 1e-4
"""A remaining motion over the settling time of less than this share of the diameter counts as rest."""
UPPER = 0.8
"""The plateau is judged by this quantile of the speeds: most starts, but not a few stragglers."""
COLLAPSED = 1e-3
"""States with less than this share of their first spread have contracted to a point."""


@dataclass(frozen=True)
class Settling:
    """States of all finite starts after `steps` steps and after half as many, and how fast they move."""

    half: Float[Tensor, "starts size"]
    """States after half of the steps."""
    states: Float[Tensor, "starts size"]
    """States after all steps."""
    speeds: Float[Tensor, " starts"]
    """Length of the next step from `states`."""
    peak: Float[Tensor, " starts"]
    """Largest step within the second half."""
    finite: Bool[Tensor, " given"]
    """Which of the given starts stayed finite; the others are left out above."""
    steps: int
    plateau: bool
    """Whether the speeds had reached their plateau; otherwise fast motion may be left."""
    kept: float
    """Spread after all steps, as a share of the spread of the starts."""
    kept_longer: float
    """Spread after all steps, as a share of the spread after half of them."""

    @property
    def diameter(self) -> float:
        """Largest distance between two settled states."""
        return float(torch.cdist(self.states, self.states).max()) if len(self.states) else 0.0


def spread(states: Float[Tensor, "states size"]) -> float:
    """Return the root-mean-square distance from the mean."""
    return float((states - states.mean(0)).square().sum(1).mean().sqrt()) if len(states) else 0.0


def settle(system: Dynamics, starts: Float[Tensor, "starts size"], steps: int, longest: int) -> Settling:
    """Settle for twice `steps` at least, and longer until the speeds are on their plateau, up to `longest` steps.

    The drift along a slow manifold changes over the time in which a state moves along it, while motion towards it
    decays. So the time is doubled until doubling it leaves the speeds nearly unchanged, or nothing moves any more.
    The states after half of the time remain for comparison: what contracts to a point has become smaller meanwhile.
    """
    states, time, checkpoint = starts, 0, steps
    half = half_speeds = peak = starts.new_zeros(0)
    with torch.no_grad():
        while True:
            for _ in range(checkpoint - time):
                new = system(states)
                peak = torch.maximum(peak, (new - states).norm(dim=1)) if len(peak) else peak
                states = new
            time = checkpoint
            speeds = (system(states) - states).norm(dim=1)
            if len(half):
                finite = (torch.isfinite(states).all(1) & torch.isfinite(speeds)).cpu()
                plateau = _on_plateau(half_speeds[finite], speeds[finite], half[finite], time)
                contracted = spread(states[finite]) <= COLLAPSED * spread(starts[finite])
                if plateau or contracted or 2 * time > longest or not bool(finite.any()):
                    break
            half, half_speeds, peak, checkpoint = states, speeds, speeds.clone(), 2 * time
    before, middle, after = (spread(part[finite]) for part in (starts, half, states))
    return Settling(
        half=half[finite],
        states=states[finite],
        speeds=speeds[finite],
        peak=torch.maximum(peak, speeds)[finite],
        finite=finite,
        steps=time,
        plateau=plateau,
        kept=after / before if before > 0 else 0.0,
        kept_longer=after / middle if middle > 0 else 0.0,
    )


def wait_for_speed(
    system: Dynamics, states: Float[Tensor, "states size"], speed: float, steps: int
) -> tuple[Float[Tensor, "states size"], Float[Tensor, " states"], Int[Tensor, " states"]]:
    """Return each state at the first step at which it is at most this fast, its speed there, and that step.

    The step is -1, and the state the last one, where the speed is not reached within this many steps.
    """
    arrived = torch.full((len(states),), -1)
    current, result = states, states.clone()
    speeds = torch.full_like(states[:, 0], torch.inf)
    with torch.no_grad():
        for step in range(steps + 1):
            new = system(current)
            moved = (new - current).norm(dim=1)
            waiting = arrived < 0
            result[waiting], speeds[waiting] = current[waiting], moved[waiting]
            arrived[waiting & (moved <= speed).cpu()] = step
            if bool((arrived >= 0).all()):
                break
            current = new
    return result, speeds, arrived


def _on_plateau(before: Tensor, after: Tensor, states: Tensor, time: int) -> bool:
    if not len(states):
        return False
    first, second = (float(torch.quantile(speeds, UPPER)) for speeds in (before, after))
    if first * time <= NEGLIGIBLE * 2 * spread(states):
        return True
    return second >= PLATEAU * first
