"""A system left alone from many starts: where it is in the end, and the way it moved meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.dynamics import Dynamics

SKETCH = 24
"""Larger states are remembered by so many random combinations of their numbers, which keep distances well enough."""
FAR = 1e8
"""A state this many times larger than the starts has left to infinity."""


@dataclass(frozen=True)
class Watched:
    """What was seen of a map in a window of steps that follows the transient."""

    first: Float[Tensor, "starts size"]
    """The starts."""
    before: Float[Tensor, "starts size"]
    """States as the window begins."""
    states: Float[Tensor, "starts size"]
    """States as it ends."""
    path: Float[Tensor, "time starts sketch"]
    """The way through the window, as a sketch of the states: `time` + 1 of them."""
    length: Float[Tensor, " starts"]
    """Length of that way."""
    first_step: Float[Tensor, " starts"]
    """Length of the very first step."""
    step_before: Float[Tensor, " starts"]
    """Length of the step as the window begins."""
    last_step: Float[Tensor, " starts"]
    """Length of the step from the last state."""
    diverged: Bool[Tensor, " starts"]
    """Which have left to infinity, or become undefined."""
    undefined: Bool[Tensor, " starts"]
    """Which of these have no next state: a step from a finite one, not far out, gives NaN."""

    @cached_property
    def extent(self) -> float:
        """How far apart starts and last states lie from their mean (rms over states): what is near is measured in it.

        It is what the steps are where there is one state only.
        """
        kept = ~self.diverged
        cloud = torch.cat([self.first[kept], self.states[kept]])
        if not len(cloud):
            return 1.0
        spread = float((cloud - cloud.mean(0)).square().sum(1).mean().sqrt())
        return spread or float(self.first_step[kept].max()) or 1.0

    @cached_property
    def speed(self) -> float:
        """The typical speed: median length of the first step, over the starts."""
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
        """Whether the second half of the window looks like the first, in mean and spread."""
        half = len(self.path) // 2
        early, late = self.path[:half], self.path[-half:]
        shift = (early.mean(0) - late.mean(0)).norm(dim=1)
        widths = [(part - part.mean(0)).square().sum(2).mean(0).sqrt() for part in (early, late)]
        wide, narrow = torch.maximum(*widths), torch.minimum(*widths)
        chance = 6 * self.centre_error  # three standard errors of the difference of two halves
        return (shift <= torch.maximum(ALIKE * wide, chance)) & (narrow >= (1 - ALIKE) * wide)

    @cached_property
    def straight(self) -> Bool[Tensor, " starts"]:
        """Whether the way led on and not back: its ends lie apart by more than half of its length."""
        return (self.states - self.before).norm(dim=1) > 0.5 * self.length

    def updated(self, rows: list[int], later: Watched) -> Watched:
        """The same, with what was seen later of some of the starts; their first steps stay."""
        changed = {}
        for name in ("before", "states", "length", "step_before", "last_step", "diverged", "undefined"):
            changed[name] = getattr(self, name).clone()
            changed[name][rows] = getattr(later, name)
        path = self.path.clone()
        path[:, rows] = later.path
        return replace(self, path=path, **changed)

    def repeats(self, most: int) -> Int[Tensor, " starts"]:
        """The least number of steps, from 2 to `most`, after which the last states of each start come again to a
        thousandth of their spread; 0 where there is none.
        """
        last = self.path[-most:]
        found = torch.zeros(self.path.shape[1], dtype=torch.int64)
        spread = (last - last.mean(0)).square().sum(2).mean(0).sqrt()
        for k in range(2, most // 2 + 1):
            gap = (last[k:] - last[:-k]).norm(dim=2).amax(0).cpu()
            found = torch.where((found == 0) & (gap <= AGAIN * spread.cpu()), k, found)
        return found

    @cached_property
    def returns(self) -> Bool[Tensor, " starts"]:
        """Whether the last state lies near one of the window's first half."""
        half = self.path[: len(self.path) // 2]
        return (half - self.path[-1]).norm(dim=2).amin(0) <= ALIKE * self.spread

    def return_time(self, start: int) -> float:
        """Steps after which a state has gone away and come back: the first lag of small mean distance after a large
        one; NaN where it does not.
        """
        own = self.path[:, start]
        lags = range(1, len(own) // 2)
        gaps = torch.stack([(own[k:] - own[:-k]).norm(dim=1).mean() for k in lags])
        away = (gaps > 0.5 * gaps.max()).nonzero()[:, 0]
        if not len(away):
            return float("nan")
        back = (gaps[away[0] :] < 0.25 * gaps.max()).nonzero()[:, 0]
        if not len(back):
            return float("nan")
        low = int(away[0] + back[0])
        while low + 1 < len(gaps) and gaps[low + 1] < gaps[low]:
            low += 1
        return float(low + 1)


ALIKE = 0.25
"""Two halves of a window look alike where mean and spread differ by less than this share of the spread, the mean also
by what chance explains."""
BLOCKS = 20
"""Blocks of steps whose scatter gives the error of a mean."""
STANDSTILL = 50
"""So often, in steps, it is looked whether all states stand still to rounding, and nothing more will be seen."""
AGAIN = 1e-3
"""States that come again to this share of their spread may belong to a cycle; Newton's method decides."""


def watch(dynamics: Dynamics, starts: Float[Tensor, "starts size"], transient: int, steps: int) -> Watched:
    """Leave a map alone: `transient` steps, and then `steps` more that are looked at."""
    limit = FAR * max(1.0, float(starts.abs().max()))
    mix = _mix(dynamics)
    x, gone = starts, torch.zeros(len(starts), dtype=torch.bool, device=starts.device)
    undefined = gone
    path = starts.new_zeros(steps + 1, len(starts), mix.shape[1])
    length, still = starts.new_zeros(len(starts)), torch.finfo(starts.dtype).eps * float(starts.norm(dim=1).max())
    first_step, step_before, before, step = None, length, starts, length
    with torch.no_grad():
        for time in range(transient + steps + 1):
            new = dynamics(x)
            undefined = undefined | (~gone & torch.isnan(new).any(1))
            gone = gone | ~(torch.isfinite(new).all(1) & (new.abs().amax(1) <= limit))
            new = torch.where(gone[:, None], x, new)  # what has left stays where it was last seen
            step = (new - x).norm(dim=1)
            first_step = step if first_step is None else first_step
            now = time - transient
            if now <= 0:
                before, step_before = x, step
            stands = time % STANDSTILL == 0 and bool((step <= still).all())
            if now >= 0 or stands:
                path[max(now, 0) if not stands else slice(max(now, 0), None)] = x @ mix
                if now == steps or stands:
                    break
                length = length + step
            x = new
    assert first_step is not None
    return Watched(starts, before, x, path, length, first_step, step_before, step, gone, undefined)


def _mix(dynamics: Dynamics) -> Float[Tensor, "size sketch"]:
    if dynamics.size <= SKETCH:
        return torch.eye(dynamics.size, dtype=dynamics.dtype, device=dynamics.device)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(dynamics.size, SKETCH, generator=generator, dtype=dynamics.dtype) / SKETCH**0.5
    return drawn.to(dynamics.device)
