"""The discrete memory with V_d on a schedule: frozen, or set to the rates after every step or every `hold` steps.

A step moves V_f with V_d = y fixed; then V_d moves or stays. If S = sqrt(alpha_s) alpha_c Xi Phi Xi^T is symmetric and
positive semi-definite and sigma_h linear, `E + |c|^2 / 2 + y.S y / 2`, c = alpha_c Phi^T Xi^T y, also falls when V_d is
set to the rates: with d = g - y, by `d.S d / 2`. (It is `L*(g) - alpha_s |Xi^T g|^2 / 2 - g.S y + y.S y / 2`: in y, a
parabola with its minimum at y = g.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Literal

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.energy.bounds import LowerBound, lower_bound
from mnemoscope.lenses.energy.bregman import step_causes
from mnemoscope.lenses.energy.symmetry import Symmetry, describe_asymmetry, within_rounding
from mnemoscope.lenses.energy.terms import Energy, rates_energy
from mnemoscope.lenses.energy.trajectories import simulate
from mnemoscope.lenses.energy.weights import Features, Weights

Rates = Float[Tensor, "time *batch features"]


@dataclass(frozen=True)
class Schedule:
    """A memory with V_d frozen at `frozen`, or set to the rates after every `hold` steps, and its energy."""

    weights: Weights
    frozen: Features | None = None
    hold: int = 1
    kind: Literal["frozen", "schedule", "none"] = "none"
    """"frozen": E falls; "schedule": E with the term of V_d for any schedule falls; "none": E may rise."""
    reason: str = ""
    asymmetry: float = nan
    """Relative antisymmetric part of S; NaN if it plays no role."""
    guaranteed: bool = False
    """Whether the energy cannot rise, except by rounding of the weights."""

    @property
    def units(self) -> int:
        """Number of features."""
        return self.weights.features

    @property
    def follows(self) -> bool:
        """Whether V_d always equals the rates."""
        return self.frozen is None and self.hold == 1

    def step(self, g: Features) -> Features:
        """Return the next rates with V_d = g."""
        return self.weights.sigma_f(self.weights.field(g, g))

    def run(self, start: Features, steps: int) -> Rates:
        """Return the rates over time, truncated before any of them diverges."""

        def step(run: list[Tensor]) -> Tensor:
            last = len(run) - 1
            y = run[last - last % self.hold] if self.frozen is None else self.frozen.expand_as(start)
            return self.weights.sigma_f(self.weights.field(run[-1], y))

        return simulate(step, start, steps)

    def delayed(self, rates: Rates) -> Rates:
        """Return V_d at each time, with the value that acts on the next step of V_f."""
        times = torch.arange(len(rates))
        return rates[times - times % self.hold] if self.frozen is None else self.frozen.expand_as(rates)

    def following(self, rates: Rates) -> Float[Tensor, "steps *batch features"]:
        """Return the rates one step after each of these but the last."""
        return self.weights.sigma_f(self.weights.field(rates[:-1], self.delayed(rates)[:-1]))

    def energy(self, rates: Rates) -> Energy:
        """Return the energy at each time (Eq 25 of the notes), with the term of V_d if that makes it fall."""
        delayed = self.delayed(rates)
        energy = rates_energy(self.weights, rates, delayed)
        settled = {"V_d": self.weights.settled_energy(delayed)} if self.kind == "schedule" else {}
        return Energy({**energy.terms, **settled})

    def change(self, rates: Rates) -> Energy:
        """Return the change in each step by cause: the two divergences, and the move of V_d after them."""
        weights, delayed = self.weights, self.delayed(rates)
        g, y = rates[:-1], delayed[:-1]
        x = weights.field(g, y)
        features = -(weights.sigma_f.value(x) + weights.sigma_f.conjugate(g) - (x * g).sum(-1))
        causes = step_causes(weights, features, (g, rates[1:]), (y, delayed[1:]))
        settled = weights.settled_energy(delayed).diff(dim=0) if self.kind == "schedule" else 0.0
        return Energy({**causes.terms, "move of V_d": causes["move of V_d"] + settled})

    def size(self, rates: Rates) -> Tensor:
        """Return the scale of rounding of each `change`."""
        size = self.energy(rates).size
        return size[1:] + size[:-1]

    def slack(self, rates: Rates) -> Tensor | None:
        """Return the most that rounding of the weights can add to each change; None if descent does not depend on it.

        If V_d moves by d to g, this is `|A| |d| |g|` for the antisymmetric part A of S, and `|lambda| |d|^2 / 2` for a
        negative eigenvalue lambda that should be 0.
        """
        if self.kind != "schedule" or not self.guaranteed:
            return None
        S = Symmetry.from_matrix(self.weights.coupling())
        d = self.delayed(rates).diff(dim=0).norm(dim=-1)
        return S.asymmetry * S.norm * d * rates[1:].norm(dim=-1) + max(0.0, -S.lowest) * d.square() / 2

    def bound(self, rates: Rates) -> LowerBound | None:
        """Return a lower bound of the energy; None if V_d moves."""
        return lower_bound(self.weights, self.delayed(rates)[0]) if self.kind == "frozen" else None


def scheduled(weights: Weights, frozen: Tensor | None, hold: int, tolerance: float) -> Schedule:
    """Return the memory on a schedule with the energy that falls; `tolerance`: asymmetry of S up to which it does."""
    if frozen is not None:
        if frozen.shape[-1:] != (weights.features,) or frozen.dim() > 2 or not torch.isfinite(frozen).all():
            raise ValueError(
                f"delayed must be finite, ({weights.features},) or (batch, {weights.features}), but its shape is "
                f"{tuple(frozen.shape)}."
            )
        frozen = frozen.detach().double()
    if frozen is not None or not (weights.alpha_c * weights.Xi @ weights.Phi).any():
        reason = "V_d is frozen or does not act, and L_f and L_h are convex: a step subtracts two divergences"
        return Schedule(weights, frozen, hold, "frozen", reason, guaranteed=True)
    symmetry = Symmetry.from_matrix(weights.coupling())
    asymmetry = symmetry.asymmetry if weights.linear else nan
    rounded = weights.features * weights.rounding * symmetry.norm  # largest rounding error of an eigenvalue
    if asymmetry <= tolerance and symmetry.lowest >= -rounded:
        sure = asymmetry <= within_rounding(weights.rounding, weights.features)
        symmetric = f"symmetric{describe_asymmetry(asymmetry, sure)}"
        reason = f"Xi Phi Xi^T is positive semi-definite and {symmetric}: V_d may move at any step"
        return Schedule(weights, None, hold, "schedule", reason, asymmetry, sure)
    if not weights.linear:
        because = "sigma_h is not linear"
    elif asymmetry > tolerance:
        because = f"Xi Phi Xi^T is not symmetric (antisymmetric part {asymmetry:.2g} of its norm)"
    else:
        because = f"Xi Phi Xi^T is symmetric, but not positive (lowest eigenvalue {symmetry.lowest:.3g})"
    held = "" if hold == 1 else f"; it falls on the {hold - 1} of {hold} steps after which V_d stays"
    return Schedule(
        weights, None, hold, "none", f"V_d moves, which can raise the energy, as {because}{held}", asymmetry
    )
