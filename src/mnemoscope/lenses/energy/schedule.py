"""The discrete memory with V_d on a schedule: frozen, or set to the rates after every step or every `hold` steps.

A step moves V_f with V_d = y fixed; then V_d moves or stays. If S = sqrt(alpha_s) alpha_c Xi Phi Xi^T is symmetric and
positive semi-definite and sigma_h linear, `E + |c|^2 / 2 + y.S y / 2`, c = alpha_c Phi^T Xi^T y, also falls when V_d is
set to the rates: with d = g - y, by `d.S d / 2`. (It is `L*(g) - alpha_s |Xi^T g|^2 / 2 - g.S y + y.S y / 2`: in y, a
parabola with its minimum at y = g.)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.energy.symmetry import Symmetry
from mnemoscope.lenses.energy.terms import Energy, rates_energy
from mnemoscope.lenses.energy.trajectories import FAR
from mnemoscope.lenses.energy.weights import Weights


@dataclass(frozen=True)
class Schedule:
    """A memory with V_d frozen at `frozen`, or set to the rates after every `hold` steps."""

    weights: Weights
    frozen: Float[Tensor, "*batch features"] | None = None
    hold: int = 1

    def field(self, g: Float[Tensor, "*batch features"], y: Float[Tensor, "*batch features"]) -> Tensor:
        """Return the next V_f, from the rates g and V_d = y."""
        weights = self.weights
        recalled = weights.alpha_s**0.5 * weights.sigma_h(weights.memory_drive(g, y)) @ weights.Xi.mT
        return recalled if weights.current is None else recalled + weights.current

    def follow(self, g: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
        """Return the next rates with V_d = g."""
        return self.weights.sigma_f(self.field(g, g))

    def run(self, start: Float[Tensor, "batch features"], steps: int) -> Float[Tensor, "time batch features"]:
        """Return the rates over time, truncated before any of them diverges."""
        run, y = [start], start
        for t in range(steps):
            y = self._next(y, run[-1], t)
            following = self.weights.sigma_f(self.field(run[-1], y))
            if not bool((following.abs() < FAR).all()) and len(run) > 2:
                break
            run.append(following)
        return torch.stack(run)

    def delayed(self, rates: Float[Tensor, "time batch features"]) -> Float[Tensor, "time batch features"]:
        """Return V_d at each time, with the value that acts on the next step of V_f."""
        y, path = rates[0], []
        for t, g in enumerate(rates):
            y = self._next(y, g, t)
            path.append(y)
        return torch.stack(path)

    def _next(self, y: Tensor, g: Tensor, t: int) -> Tensor:
        if self.frozen is not None:
            return self.frozen.expand_as(g)
        return g if t % self.hold == 0 else y

    def deviation(
        self, rates: Float[Tensor, "time batch features"], delayed: Float[Tensor, "time batch features"]
    ) -> float:
        """Return how far rates deviate from a step of the memory, relative to their size."""
        off = self.weights.sigma_f(self.field(rates[:-1], delayed[:-1])) - rates[1:]
        return float(off.abs().amax() / rates.abs().amax().clamp_min(1e-300))

    def energy(
        self, rates: Float[Tensor, "time batch features"], delayed: Float[Tensor, "time batch features"], settled: bool
    ) -> Energy:
        """Return the energy at each time (Eq 25 of the notes); `settled`: with the term of V_d for any schedule."""
        energy = rates_energy(self.weights, rates, delayed)
        return Energy({**energy.terms, "V_d": self._delayed_term(delayed)}) if settled else energy

    def change(
        self, rates: Float[Tensor, "time batch features"], delayed: Float[Tensor, "time batch features"], settled: bool
    ) -> Energy:
        """Return the change in each step by cause: the two divergences, and the move of V_d after them."""
        weights = self.weights
        g, g_after, y, y_after = rates[:-1], rates[1:], delayed[:-1], delayed[1:]
        x, V_h, V_h_after = self.field(g, y), weights.memory_drive(g, y), weights.memory_drive(g_after, y)
        moved = weights.sigma_h.value(V_h_after) - weights.sigma_h.value(weights.memory_drive(g_after, y_after))
        if settled:
            moved = moved + self._delayed_term(y_after) - self._delayed_term(y)
        return Energy(
            {
                "features": -(weights.sigma_f.value(x) + weights.sigma_f.conjugate(g) - (x * g).sum(-1)),
                "memories": -weights.sigma_h.divergence(V_h_after, V_h),
                "move of V_d": moved,
            }
        )

    def slack(
        self, rates: Float[Tensor, "time batch features"], delayed: Float[Tensor, "time batch features"]
    ) -> Tensor:
        """Return the most that rounding of S can add to each change with `settled`.

        If V_d moves by d to g, this is `|A| |d| |g|` for the antisymmetric part A of S, and `|lambda| |d|^2 / 2` for a
        negative eigenvalue lambda that should be 0.
        """
        S = Symmetry.from_matrix(self.weights.coupling())
        d = delayed.diff(dim=0).norm(dim=-1)
        return S.asymmetry * S.norm * d * rates[1:].norm(dim=-1) + max(0.0, -S.lowest) * d.square() / 2

    def _delayed_term(self, y: Tensor) -> Tensor:
        return self.weights.delayed_drive(y).square().sum(-1) / 2 + (y * (y @ self.weights.coupling())).sum(-1) / 2
