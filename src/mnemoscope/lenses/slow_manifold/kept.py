"""Which starts end slow, on which time scale, and why they can be no slow manifold."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.slow_manifold.settling import Settling, settle, wait_for_speed
from mnemoscope.lenses.slow_manifold.shape import FEWEST, local_dimension
from mnemoscope.lenses.slow_manifold.view import View

SCALES, SHORT = (60, 30, 15), (8, 4)
"""Numbers of steps over which a memory must keep its spread, tried in turn; shorter ones are only pointed out."""
DOUBLINGS = 4
"""How often the settling time may be doubled until the speeds are on their plateau."""
WINDOW = 60
"""Steps over which states are averaged if they oscillate."""
CROSSED = 0.1
"""A state is slow if it crosses at most this share of the diameter of all settled states within `steps` steps."""
FASTER = 3.0
"""A slow state was at most this many times faster than allowed in the second half of its settling."""
CONTRACTED = 0.02
"""With less than this share of their first spread left, the states have contracted to one point."""
SHRINKING = 0.8
"""With less than this share of its spread left after twice the time, a set of states still contracts."""
GROWING = 1 / SHRINKING
"""With more than this multiple of its spread after twice the time, a set of states leaves."""


@dataclass(frozen=True)
class Kept:
    """The finite starts where they are kept, and which of them are slow."""

    view: View
    settling: Settling
    states: Float[Tensor, "finite size"]
    """Each start after settling, or at the first step at which it has the speed that was asked for."""
    speeds: Float[Tensor, " finite"]
    slow: Bool[Tensor, " finite"]
    limit: float
    """Largest speed of a slow state."""
    steps: int
    """Time scale: a memory keeps its spread over as many steps."""
    places: int
    """Number of different finite starts; a spread needs two."""
    shorter: Kept | None = None
    """The same starts on a shorter time scale, on which they may be a memory that does not last."""

    @property
    def starts(self) -> Bool[Tensor, " given"]:
        """Which of the given starts are kept."""
        kept = self.settling.finite.clone()
        kept[self.settling.finite] = self.slow
        return kept

    @property
    def contracts(self) -> bool:
        """Whether the states contract to one point, or still approach one."""
        return self.places > 1 and (self.settling.kept <= CONTRACTED or self.settling.kept_longer < SHRINKING)

    @property
    def too_fast(self) -> bool:
        """Whether most starts stay finite, keep their spread, and do not become slow."""
        diverged = 2 * len(self.settling.states) < len(self.settling.finite)
        return not diverged and not self.contracts and 2 * int(self.slow.sum()) < len(self.settling.finite)

    @property
    def reason(self) -> str:
        """Why the states cannot be a slow manifold; empty if they may be one."""
        if self.shorter is not None:
            return f"{replace(self, shorter=None).reason}; {_describe(self.shorter)}"
        total, settling = len(self.settling.finite), self.settling
        if 2 * len(settling.states) < total:
            return f"{total - len(settling.states)} of {total} starts diverge"
        if self.places < 2:
            return f"fewer than two different starts stay finite: pass at least {FEWEST}"
        if settling.kept <= CONTRACTED:
            left = f"{settling.kept:.3f} of their spread is left after {settling.steps} steps"
            return f"all states contract to one point ({left})"
        if self.contracts:
            half, left = settling.steps // 2, f"{settling.kept_longer:.2f}"
            return f"the states still contract: {left} of the spread after {half} steps is left after {settling.steps}"
        if self.too_fast and settling.kept_longer > GROWING:
            return growth_reason(settling.kept_longer, settling.steps)
        if self.too_fast:
            return f"only {int(self.slow.sum())} of {total} starts become slow"
        return ""


def growth_reason(growth: float, steps: int) -> str:
    """Return why states whose spread grew by this factor in the second half of these steps hold no value."""
    return f"the states leave: their spread grows {growth:.3g}-fold from step {steps // 2} to step {steps}"


def keep_slow_states(
    system: Dynamics, starts: Float[Tensor, "starts size"], speed: float | None, steps: int | None
) -> Kept:
    """Return the starts that end slow.

    States that contract within the first time scale may be a memory on a shorter one: they are tried on each, unless
    `steps` was given. States that stay fast may oscillate around a held value: then their means are tried.
    """
    first = _settled(View(system), starts, speed, steps or SCALES[0], DOUBLINGS)
    if first.contracts and steps is None:
        for scale in (*SCALES[1:], *SHORT):
            shorter = _settled(View(system), starts, speed, scale, 0)
            if shorter.reason or not shorter.settling.plateau or not 0 < _dimension(shorter) <= 2:
                continue
            return shorter if scale in SCALES else replace(first, shorter=shorter)
    if first.too_fast:
        averaged = _settled(View(system, WINDOW), starts, speed, steps or SCALES[0], DOUBLINGS)
        if not averaged.reason and 0 < _dimension(averaged) <= 2:
            return averaged
    return first


def _describe(short: Kept) -> str:
    return (
        f"on the way they are close to a set of dimension {_dimension(short)} with a time constant of about "
        f"{short.settling.time_constant:.2g} steps, which steps={short.steps} describes"
    )


def _settled(view: View, starts: Tensor, speed: float | None, steps: int, doublings: int) -> Kept:
    longest = 2 * steps * 2**doublings
    if speed is None or view.window > 1:
        settling = settle(view, starts, steps, longest)
        limit = CROSSED * settling.diameter / steps if speed is None else float(speed)
        slow = ((settling.speeds <= limit) & (settling.peak <= FASTER * limit)).cpu()
        places = _number_of_places(starts, settling)
        return Kept(view, settling, settling.states, settling.speeds, slow, limit, steps, places)
    # each start stays where it first has the speed asked for; settling on shows whether the states keep their spread
    states, speeds, arrived = wait_for_speed(view.system, starts, float(speed), longest)
    settling = settle(view, states, steps, longest)
    finite = settling.finite
    places = _number_of_places(starts, settling)
    return Kept(view, settling, states[finite], speeds[finite], arrived[finite] >= 0, float(speed), steps, places)


def _number_of_places(starts: Tensor, settling: Settling) -> int:
    return len(torch.unique(starts[settling.finite.to(starts.device)], dim=0))


def _dimension(kept: Kept) -> int:
    return local_dimension(kept.settling.shown[kept.slow.to(kept.states.device)].detach().cpu().double().numpy())
