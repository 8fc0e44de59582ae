"""Autonomous simulation from many starts: the states after a transient, and the trajectories that follow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.progress import slow_bar
from mnemoscope.lenses.dynamics import Dynamics

SKETCH = 24
"""Random projections that represent larger states; they preserve distances well enough."""
FAR = 1e8
"""A state this many times larger than the starts has left to infinity."""
ALIKE = 0.25
"""Two halves of a window are alike if mean and spread differ by less than this share of the spread; the mean may also
differ by what chance explains."""
BLOCKS = 20
"""Blocks of steps that give the standard error of a mean by their scatter."""
STANDSTILL = 50
"""Steps between two checks whether all states stand still to rounding, so that the simulation can stop."""
RECURRENT = 1e-3
"""States that recur to this share of their spread may belong to a cycle; Newton's method decides."""


@dataclass(frozen=True)
class Trajectories:
    """Trajectories of a map in a window of steps that follows the transient."""

    starts: Float[Tensor, "starts size"]
    """Initial states, before the transient."""
    entry: Float[Tensor, "starts size"]
    """States at the beginning of the window."""
    states: Float[Tensor, "starts size"]
    """States at the end of the window."""
    path: Float[Tensor, "time starts sketch"]
    """Sketches of all states in the window."""
    length: Float[Tensor, " starts"]
    """Length of the path through the window."""
    first_step: Float[Tensor, " starts"]
    """Length of the first step of the transient."""
    entry_step: Float[Tensor, " starts"]
    """Length of the step at the beginning of the window."""
    last_step: Float[Tensor, " starts"]
    """Length of the step from the last state."""
    diverged: Bool[Tensor, " starts"]
    """Whether each start has left to infinity or become undefined."""
    undefined: Bool[Tensor, " starts"]
    """Whether each start has no next state: a step from a finite state, not far out, gives NaN."""

    @cached_property
    def extent(self) -> float:
        """Root mean square distance of starts and last states from their mean: the scale on which states are near.

        With a single state, it is the largest first step.
        """
        kept = ~self.diverged
        cloud = torch.cat([self.starts[kept], self.states[kept]])
        if not len(cloud):
            return 1.0
        spread = float((cloud - cloud.mean(0)).square().sum(1).mean().sqrt())
        return spread or float(self.first_step[kept].max()) or 1.0

    @cached_property
    def speed(self) -> float:
        """Typical speed: the median length of the first step over the starts."""
        return float(self.first_step[~self.diverged].median()) if not bool(self.diverged.all()) else 0.0

    @cached_property
    def centre(self) -> Float[Tensor, "starts sketch"]:
        """Mean state in the window."""
        return self.path.mean(0)

    @cached_property
    def spread(self) -> Float[Tensor, " starts"]:
        """Root mean square distance from `centre` in the window."""
        return (self.path - self.centre).square().sum(2).mean(0).sqrt()

    @cached_property
    def centre_error(self) -> Float[Tensor, " starts"]:
        """Standard error of `centre`, from the scatter of means over blocks of steps."""
        means = torch.stack([block.mean(0) for block in self.path.tensor_split(BLOCKS)])
        return (means.var(0).sum(1) / BLOCKS).sqrt()

    @cached_property
    def stationary(self) -> Bool[Tensor, " starts"]:
        """Whether the second half of the window resembles the first, in mean and spread."""
        half = len(self.path) // 2
        early, late = self.path[:half], self.path[-half:]
        shift = (early.mean(0) - late.mean(0)).norm(dim=1)
        widths = [(part - part.mean(0)).square().sum(2).mean(0).sqrt() for part in (early, late)]
        wide, narrow = torch.maximum(*widths), torch.minimum(*widths)
        chance = 6 * self.centre_error  # three standard errors of the difference of two halves
        return (shift <= torch.maximum(ALIKE * wide, chance)) & (narrow >= (1 - ALIKE) * wide)

    @cached_property
    def straight(self) -> Bool[Tensor, " starts"]:
        """Whether the path leads on and not back: its ends are more than half of its length apart."""
        return (self.states - self.entry).norm(dim=1) > 0.5 * self.length

    @cached_property
    def returns(self) -> Bool[Tensor, " starts"]:
        """Whether the last state lies near a state of the first half of the window."""
        half = self.path[: len(self.path) // 2]
        return (half - self.path[-1]).norm(dim=2).amin(0) <= ALIKE * self.spread

    def updated(self, rows: list[int], later: Trajectories) -> Trajectories:
        """Return a copy in which the windows of some starts are replaced by later ones; their first steps stay."""
        changed = {}
        for name in ("entry", "states", "length", "entry_step", "last_step", "diverged", "undefined"):
            changed[name] = getattr(self, name).clone()
            changed[name][rows] = getattr(later, name)
        path = self.path.clone()
        path[:, rows] = later.path
        return replace(self, path=path, **changed)

    def recurrence_periods(self, window: int) -> Int[Tensor, " starts"]:
        """Return the least period, from 2 to `window` / 2 steps, with which the last `window` states of each start
        recur to a thousandth of their spread; 0 without recurrence.
        """
        last = self.path[-window:]
        periods = torch.zeros(self.path.shape[1], dtype=torch.int64)
        spread = (last - last.mean(0)).square().sum(2).mean(0).sqrt()
        for k in range(2, window // 2 + 1):
            gap = (last[k:] - last[:-k]).norm(dim=2).amax(0).cpu()
            periods = torch.where((periods == 0) & (gap <= RECURRENT * spread.cpu()), k, periods)
        return periods

    def return_time(self, start: int) -> float:
        """Return the number of steps after which a trajectory has moved away and come back.

        That is the first lag of small mean distance after one of large mean distance; NaN without a return.
        """
        path = self.path[:, start]
        lags = range(1, len(path) // 2)
        gaps = torch.stack([(path[k:] - path[:-k]).norm(dim=1).mean() for k in lags])
        away = (gaps > 0.5 * gaps.max()).nonzero()[:, 0]
        if not len(away):
            return float("nan")
        back = (gaps[away[0] :] < 0.25 * gaps.max()).nonzero()[:, 0]
        if not len(back):
            return float("nan")
        minimum = int(away[0] + back[0])
        while minimum + 1 < len(gaps) and gaps[minimum + 1] < gaps[minimum]:
            minimum += 1
        return float(minimum + 1)


def simulate(
    dynamics: Dynamics, starts: Float[Tensor, "starts size"], transient: int, steps: int, progress: bool = False
) -> Trajectories:
    """Run a map without further input: `transient` steps, then a window of `steps` that is recorded."""
    limit = FAR * max(1.0, float(starts.abs().max()))
    sketch = sketch_matrix(dynamics)
    x, diverged = starts, torch.zeros(len(starts), dtype=torch.bool, device=starts.device)
    undefined = diverged
    path = starts.new_zeros(steps + 1, len(starts), sketch.shape[1])
    length, rounding = starts.new_zeros(len(starts)), torch.finfo(starts.dtype).eps * float(starts.norm(dim=1).max())
    first_step, entry_step, entry, step = None, length, starts, length
    with torch.no_grad():
        for time in slow_bar(range(transient + steps + 1), "simulation", shown=progress):
            new = dynamics(x)
            undefined = undefined | (~diverged & torch.isnan(new).any(1))
            diverged = diverged | ~(torch.isfinite(new).all(1) & (new.abs().amax(1) <= limit))
            new = torch.where(diverged[:, None], x, new)  # a diverged start stays at its last finite state
            step = (new - x).norm(dim=1)
            first_step = step if first_step is None else first_step
            now = time - transient
            if now <= 0:
                entry, entry_step = x, step
            stands = time % STANDSTILL == 0 and bool((step <= rounding).all())
            if now >= 0 or stands:
                path[max(now, 0) if not stands else slice(max(now, 0), None)] = x @ sketch
                if now == steps or stands:
                    break
                length = length + step
            x = new
    assert first_step is not None
    return Trajectories(starts, entry, x, path, length, first_step, entry_step, step, diverged, undefined)


def sketch_matrix(dynamics: Dynamics) -> Float[Tensor, "size sketch"]:
    """Return the projections that represent a state: random ones, or the identity for small states."""
    if dynamics.size <= SKETCH:
        return torch.eye(dynamics.size, dtype=dynamics.dtype, device=dynamics.device)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(dynamics.size, SKETCH, generator=generator, dtype=dynamics.dtype) / SKETCH**0.5
    return drawn.to(dynamics.device)
