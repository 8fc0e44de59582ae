"""The descent identity: the exact change of the energy in a step, as Bregman divergences, for convex L_f and L_h.

With V_d = y frozen, g = sigma_f(x), x+ = sqrt(alpha_s) Xi sigma_h(V_h) + u and E = L_f*(g) - u.g - L_h(V_h):

    E(x+) - E(x) = -D_f(x+ || x) - D_h(V_h+ || V_h) <= 0,   D(a || b) = L(a) - L(b) - sigma(b).(a - b).

Proof. `L_f*(g+) - L_f*(g) = x+.g+ - L_f(x+) - x.g + L_f(x) = x+.(g+ - g) - D_f(x+ || x)`. `L_h(V_h+) - L_h(V_h) =
sigma_h(V_h).(V_h+ - V_h) + D_h`, and as only g moves, `sigma_h(V_h).sqrt(alpha_s) Xi^T (g+ - g) = (x+ - u).(g+ - g)`.
In the difference the products cancel. The proof needs no property of Xi or Phi and no inverse of sigma_f: it is the
concave-convex procedure (notes on the energy, section 6) in g instead of x. For a linear sigma_h, D_h is half of
alpha_s |Xi^T (g+ - g)|^2.

If V_d then moves from y to y+, the energy changes by `L_h(V_h(g+, y)) - L_h(V_h(g+, y+))`, which has either sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.lenses.energy.terms import Energy, map_energy
from mnemoscope.lenses.energy.weights import Features, Weights

ROUNDING = 512
"""A change counts as a rise if it exceeds this many machine epsilons of the absolute sum of the terms."""


@dataclass(frozen=True)
class StepDescent:
    """Both sides of the descent identity on a batch of steps."""

    change: Float[Tensor, "*batch"]
    """E after the step minus E before it."""
    causes: Energy
    """The right-hand side of the identity, see `step_causes`."""
    size: Float[Tensor, "*batch"]
    """Sum of the absolute values of all terms of both energies."""

    @property
    def error(self) -> Float[Tensor, "*batch"]:
        """Absolute difference of the two sides, relative to `size`."""
        return (self.change - self.causes.total).abs() / self.size.clamp_min(torch.finfo(self.size.dtype).tiny)

    @property
    def rises(self) -> Bool[Tensor, "*batch"]:
        """Steps on which the energy rises by more than rounding."""
        return beyond_rounding(self.change, self.size)


def step_descent(weights: Weights, x: Features, y: Features, *, following: bool = False) -> StepDescent:
    """Return the change of the energy (Eq 25 of the notes) in one step from V_f = x, V_d = y, and its prediction.

    If V_d is `following`, it moves to sigma_f(x+) after the step, as in an Elman network; otherwise it stays frozen.

    >>> weights = Weights.from_matrices(torch.randn(4, 3), torch.randn(3, 3), "softmax")
    >>> x, y = torch.randn(2, 1000, 4, dtype=torch.float64)
    >>> steps = step_descent(weights, x, y)
    >>> bool((steps.change <= 0).all()), bool((steps.error < 1e-12).all())
    (True, True)
    """
    _check(weights, x, y)
    after = weights.step(x, y)
    g, g_after = weights.sigma_f(x), weights.sigma_f(after)
    y_after = g_after if following else y
    old, new = map_energy(weights, x, y), map_energy(weights, after, y_after)
    causes = step_causes(weights, -weights.sigma_f.divergence(after, x), (g, g_after), (y, y_after))
    return StepDescent(new.total - old.total, causes, old.size + new.size)


def step_causes(
    weights: Weights, features: Float[Tensor, "*batch"], g: tuple[Features, Features], y: tuple[Features, Features]
) -> Energy:
    """Return the change in a step by cause: `features`, which is -D_f(x+ || x), -D_h(V_h+ || V_h), and the move of V_d.

    The rates g and V_d = y are given before and after the step.
    """
    V_h, V_h_after = (weights.memory_drive(rates, y[0]) for rates in g)
    moved = weights.sigma_h.value(V_h_after) - weights.sigma_h.value(weights.memory_drive(g[1], y[1]))
    return Energy({"features": features, "memories": -weights.sigma_h.divergence(V_h_after, V_h), "move of V_d": moved})


def beyond_rounding(change: Float[Tensor, "*batch"], size: Float[Tensor, "*batch"]) -> Bool[Tensor, "*batch"]:
    """Return which changes are rises that rounding of terms of this size does not explain."""
    return change > ROUNDING * torch.finfo(torch.float64).eps * size


def _check(weights: Weights, x: Tensor, y: Tensor) -> None:
    for name, given in (("x (V_f)", x), ("y (V_d)", y)):
        if given.shape[-1:] != (weights.features,):
            raise ValueError(f"{name} must be (..., {weights.features}), but is {tuple(given.shape)}.")
        if given.dtype != torch.float64:
            raise ValueError(f"{name} must be float64, as every analysis, but is {given.dtype}; call .double().")
        if not torch.isfinite(given).all():
            raise ValueError(f"{name} contains NaN or infinite values.")
