"""The answer of the energy lens: an energy along trajectories, whether it must fall, and where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, isnan, nan
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.lenses.energy.bregman import ROUNDING
from mnemoscope.lenses.result import Flags, Result

INTEGRATED = 1e-4
"""Relative deviation of a given flow between two times that counts as integration error."""
_FUNCTIONS = {
    "schedule": "energy, with the term of V_d for any schedule,",
    "two-step": "energy of two successive states",
    "contraction": "distance from the fixed point",
    "settling": "energy, with the term of V_d that settles,",
}
"""Name of the function for each kind that is not just an energy."""


@dataclass(frozen=True, repr=False)
class EnergyDescent(Result):
    """An energy along trajectories, its terms, the causes of its changes, and whether it is guaranteed to fall.

    >>> import mnemoscope as ms
    >>> network = torch.nn.RNN(3, 8)
    >>> W = network.weight_hh_l0.data
    >>> network.weight_hh_l0.data = W @ W.mT  # symmetric, and positive
    >>> descent = ms.energy_descent(network)
    >>> descent.guaranteed, descent.kind, int(descent.rises.sum())
    (True, 'one-step', 0)
    """

    noun: ClassVar[str] = "an energy descent"
    drawn_by: ClassVar[str] = "draw_descent"
    former_kinds: ClassVar[tuple[str, ...]] = ("EnergyReport",)
    former_fields: ClassVar[dict[str, str]] = {"why": "reason", "bound_why": "bound_reason"}

    system: str
    """Description of the system."""
    guaranteed: bool
    """Whether the energy cannot rise along any trajectory of the system, except by rounding of its weights."""
    kind: str
    """The function: "frozen" (V_d stays), "schedule" (V_d may move at any step), "one-step", "two-step", "contraction",
    "settling" (a flow), or "none". If it is not guaranteed, it may rise."""
    reason: str
    """Why the function falls, or why it may rise."""
    times: Float[Tensor, " time"]
    names: tuple[str, ...]
    """Names of the terms."""
    terms: Float[Tensor, "terms time batch"]
    causes: tuple[str, ...]
    """Names of the causes of changes."""
    changes: Float[Tensor, "causes steps batch"]
    """Contribution of each cause by the exact identity: to each step of a map, or to dE/dt at each time of a flow."""
    sizes: Float[Tensor, "steps batch"]
    """Scale of the rounding error of each change."""
    continuous: bool
    """Whether the system is a flow."""
    given: bool
    """Whether the trajectory was given instead of simulated."""
    precision: float
    """Machine epsilon of the states."""
    deviation: float = 0.0
    """How far the given trajectory deviates from the system, relative to its size: per step, or between two times."""
    asymmetry: float = nan
    """Relative antisymmetric part of the matrix that should be symmetric; NaN if it plays no role."""
    bound: float = nan
    """Lower bound of the energy with V_d fixed; -inf if none exists or is known, NaN if it was not computed."""
    bound_reason: str = ""
    others: tuple[str, ...] = ()
    """Further functions that fall, and why."""
    rise: Float[Tensor, "states size"] | None = None
    """Counter-example: the rates before and after the largest rise (three states for an energy of two states), or the
    state of a flow."""
    rise_energy: Float[Tensor, " states"] | None = None
    """Energy before and after the largest rise, or dE/dt of a flow."""
    rise_delayed: Float[Tensor, "states size"] | None = None
    """V_d that acts on the next step from each of these rates; None if there is no V_d, or if it equals the rates."""
    orbit: Float[Tensor, "period size"] | None = None
    """Rates of a periodic orbit, on which no function of the state can fall at every step."""
    slack: Float[Tensor, "steps batch"] | None = None
    """Most that rounding of the weights can add to each change, if descent is guaranteed up to rounding."""

    @property
    def energy(self) -> Float[Tensor, "time batch"]:
        """The sum of the terms."""
        return self.terms.sum(0)

    @property
    def change(self) -> Float[Tensor, "steps batch"]:
        """Energy after each step of a map minus the energy before it, from the states; or dE/dt of a flow."""
        return self.changes.sum(0) if self.continuous else self.energy.diff(dim=0)

    @property
    def rises(self) -> Bool[Tensor, "steps batch"]:
        """Steps or times at which the energy rises by more than rounding."""
        rounding = ROUNDING * self.precision * self.sizes
        return self.change > (rounding if self.slack is None else rounding + self.slack)

    @property
    def strays(self) -> bool:
        """Whether the given trajectory deviates from the system by more than rounding or integration errors."""
        return self.deviation > (INTEGRATED if self.continuous else 1e3 * self.precision)

    @property
    def largest_rise(self) -> float:
        """The largest rise beyond rounding; 0 if the energy never rises."""
        risen = self.change[self.rises]
        return float(risen.max()) if risen.numel() else 0.0

    @property
    def error(self) -> float:
        """Largest error of the identity on these steps, relative to the terms.

        NaN for a flow, whose changes are rates, and for a distance, which has no identity.
        """
        if self.continuous or self.kind == "contraction" or not self.sizes.numel():
            return nan
        off = (self.change - self.changes.sum(0)).abs() / self.sizes.clamp_min(torch.finfo(self.sizes.dtype).tiny)
        known = off[torch.isfinite(off)]  # rates outside the range of the nonlinearity have an infinite energy
        return float(known.max()) if known.numel() else nan

    def summary(self) -> str:
        return " ".join(_sentences(self))

    @classmethod
    def unpack(cls, tensors: dict[str, Tensor], flags: Flags) -> EnergyDescent:
        numbers = {name: float(flags[name]) for name in ("precision", "deviation", "asymmetry", "bound")}  # once texts
        return super().unpack(tensors, flags | numbers)


def _sentences(descent: EnergyDescent) -> Iterator[str]:
    function = f"{_FUNCTIONS.get(descent.kind, 'energy')} of {descent.system}"
    if descent.guaranteed:
        yield f"The {function} never rises: {descent.reason}."
    else:
        yield f"Descent of the {function} is not guaranteed: {descent.reason}."
    yield _observation(descent)
    if descent.strays:
        yield (
            f"The trajectory does not belong to this system at this input ({_interval(descent)} is off by "
            f"{descent.deviation:.1g} of its size): its drive can raise the energy, and neither guarantee nor identity "
            f"applies."
        )
    elif isfinite(descent.error):
        yield f"The identity that splits each change by its causes holds to {descent.error:.1e} of the terms."
    if isfinite(descent.bound):
        yield f"It is never below {descent.bound:.4g}: {descent.bound_reason}."
    elif not isnan(descent.bound):
        yield f"There is no lower bound: {descent.bound_reason}."
    if descent.others:
        yield f"Other functions that fall: {'; '.join(descent.others)}."
    yield from _counter_example(descent)


def _observation(descent: EnergyDescent) -> str:
    number, rises = descent.change.numel(), int(descent.rises.sum())
    source = "given" if descent.given else "simulated"
    if descent.continuous and descent.strays:
        moves = descent.energy.diff(dim=0)
        size = descent.terms.abs().sum(0)
        up = int((moves > ROUNDING * descent.precision * (size[1:] + size[:-1])).sum())
        most = f", by {float(moves.max()):.3g} at most" if up else ""
        return f"Between successive given states it rises {up} times of {moves.numel()}{most}."
    if descent.continuous:
        if not rises:
            return f"It falls or rests at all {number} {source} states."
        return f"It rises at {rises} of {number} {source} states; dE/dt is at most {descent.largest_rise:.3g}."
    if not rises:
        return f"It did not rise on {number} {source} steps."
    return f"It rises on {rises} of {number} {source} steps; the largest rise is {descent.largest_rise:.3g}."


def _interval(descent: EnergyDescent) -> str:
    if not descent.continuous:
        return "a step"
    apart = descent.times.diff()
    low, high = f"{float(apart.min()):.3g}", f"{float(apart.max()):.3g}"
    return f"the state after a time of {low if low == high else f'{low} to {high}'}"


def _counter_example(descent: EnergyDescent) -> Iterator[str]:
    if descent.guaranteed:
        return
    if descent.rise is None or descent.rise_energy is None:
        yield "No rise was found in random trajectories, but nothing excludes one."
        return
    values = [f"{value:.4g}" for value in descent.rise_energy.tolist()]
    states = [_vector(state) for state in descent.rise.tolist()]
    if descent.continuous:
        yield f"Counter-example: at (V_f, V_h, V_d) = {states[0]}, dE/dt = {values[0]}."
    else:
        delayed = ""
        if descent.rise_delayed is not None:
            delayed = f"with V_d = {' and then '.join(_vector(y) for y in descent.rise_delayed.tolist())} "
        yield f"Counter-example: from rates {' to '.join(states)} {delayed}it rises from {values[0]} to {values[-1]}."
    if descent.orbit is not None:
        yield (
            f"There is a periodic orbit of {len(descent.orbit)} steps, from {_vector(descent.orbit[0].tolist())}: no "
            f"function of the state can fall at every step."
        )


def _vector(values: list[float]) -> str:
    shown = ", ".join(f"{value:.4g}" for value in values[:6])
    return f"({shown}{', ...' if len(values) > 6 else ''})"
