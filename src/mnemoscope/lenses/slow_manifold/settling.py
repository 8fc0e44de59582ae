"""Let states settle until their fast directions have decayed and only the slow drift is left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.slow_manifold.view import View

PLATEAU = 0.7
"""The speed is on its plateau if this share of it is left after twice the time."""
NEGLIGIBLE = 1e-4
"""A remaining motion over the settling time of less than this share of the diameter counts as rest."""
UPPER = 0.8
"""The plateau is judged by this quantile of the speeds: most starts, but not a few stragglers."""
STRAGGLER = 3.0
"""A state that is this many times faster than most states and than its neighbours settles longer than the others."""
NEIGHBOURS = 8
"""Neighbours with which the speed of a state is compared."""
COLLAPSED = 1e-3
"""States with less than this share of their first spread have contracted to a point."""


@dataclass(frozen=True)
class Settling:
    """All finite starts after `steps` steps and after half as many, and how fast they move."""

    half: Float[Tensor, "starts size"]
    """States after half of the steps, as the view shows them."""
    states: Float[Tensor, "starts size"]
    """States after all steps."""
    shown: Float[Tensor, "starts size"]
    """The same as the view shows them: the states themselves, or their means."""
    speeds: Float[Tensor, " starts"]
    """Length of the next step from `shown`."""
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
        return float(torch.cdist(self.shown, self.shown).max()) if len(self.shown) else 0.0

    @property
    def time_constant(self) -> float:
        """Steps in which the spread falls by a factor e, read from the second half; infinite if it does not fall."""
        return self.steps / 2 / -log(self.kept_longer) if 0 < self.kept_longer < 1 else inf


def spread(states: Float[Tensor, "states size"]) -> float:
    """Return the root-mean-square distance from the mean."""
    return float((states - states.mean(0)).square().sum(1).mean().sqrt()) if len(states) else 0.0


def settle(view: View, starts: Float[Tensor, "starts size"], steps: int, longest: int) -> Settling:
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
                new = view.system(states)
                if len(peak) and view.window == 1:
                    peak = torch.maximum(peak, (new - states).norm(dim=1))
                states = new
            time = checkpoint
            shown, speeds = view(states), view.speed(states)
            if len(half):
                finite = (torch.isfinite(shown).all(1) & torch.isfinite(speeds)).cpu()
                plateau = _on_plateau(half_speeds[finite], speeds[finite], half[finite], time)
                contracted = spread(shown[finite]) <= COLLAPSED * spread(starts[finite])
                if plateau or contracted or 2 * time > longest or not bool(finite.any()):
                    break
            half, half_speeds, peak, checkpoint = shown, speeds, speeds.clone(), 2 * time
    before, middle, after = (spread(part[finite]) for part in (starts, half, shown))
    settling = Settling(
        half=half[finite],
        states=states[finite],
        shown=shown[finite],
        speeds=speeds[finite],
        peak=torch.maximum(peak, speeds)[finite],
        finite=finite,
        steps=time,
        plateau=plateau,
        kept=after / before if before > 0 else 0.0,
        kept_longer=after / middle if middle > 0 else 0.0,
    )
    return _with_stragglers(view, settling, longest)


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


def _with_stragglers(view: View, settling: Settling, longest: int) -> Settling:
    """Return the settling with the few states that are not yet among the others settled longer.

    The drift is similar at neighbouring states of a manifold. A state that is much faster than its neighbours, and than
    most states, still approaches them; it continues until it is no faster than most, for at most `longest` steps.
    """
    count = len(settling.states)
    if view.window > 1 or count <= NEIGHBOURS:
        return settling
    nearest = torch.cdist(settling.states, settling.states).topk(NEIGHBOURS + 1, largest=False).indices[:, 1:]
    resting = NEGLIGIBLE * 2 * spread(settling.states) / settling.steps
    limit = max(STRAGGLER * float(settling.speeds.median()), resting)
    late = (settling.speeds > limit) & (settling.speeds > STRAGGLER * settling.speeds[nearest].median(1).values)
    if not 0 < int(late.sum()) < (1 - UPPER) * count:
        return settling
    states, speeds, peak = settling.states.clone(), settling.speeds.clone(), settling.peak.clone()
    settled, final, arrived = wait_for_speed(view.system, states[late], limit, longest)
    late[late.clone()] = (arrived >= 0).to(late.device)
    states[late], speeds[late] = settled[arrived >= 0], final[arrived >= 0]
    peak[late] = speeds[late]
    return replace(settling, states=states, shown=states, speeds=speeds, peak=peak)


def _on_plateau(before: Tensor, after: Tensor, states: Tensor, time: int) -> bool:
    if not len(states):
        return False
    first, second = (float(torch.quantile(speeds, UPPER)) for speeds in (before, after))
    if first * time <= NEGLIGIBLE * 2 * spread(states):
        return True
    return second >= PLATEAU * first
