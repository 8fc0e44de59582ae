"""What a step does to the energy, exactly, for every convex L_f and L_h.

With V_d = y frozen, g = sigma_f(x), x+ = sqrt(alpha_s) Xi sigma_h(V_h) + u and E = L_f*(g) - u.g - L_h(V_h):

    E(x+) - E(x) = -D_f(x+ || x) - D_h(V_h+ || V_h) <= 0,   D(a || b) = L(a) - L(b) - sigma(b).(a - b).

Proof. `L_f*(g+) - L_f*(g) = x+.g+ - L_f(x+) - x.g + L_f(x) = x+.(g+ - g) - D_f(x+ || x)`. `L_h(V_h+) - L_h(V_h) =
sigma_h(V_h).(V_h+ - V_h) + D_h`, and as only g moves, `sigma_h(V_h).sqrt(alpha_s) Xi^T (g+ - g) = (x+ - u).(g+ - g)`.
Taken from each other, the products cancel. Nothing is asked of Xi, Phi, or an inverse of sigma_f: this is the
concave-convex procedure (notes on the energy, section 6) in g instead of x. For a linear sigma_h, D_h is half of
alpha_s |Xi^T (g+ - g)|^2.

Where V_d then moves from y to y+, the energy changes by `L_h(V_h(g+, y)) - L_h(V_h(g+, y+))`, of either sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.lenses.energy.terms import map_energy
from mnemoscope.lenses.energy.weights import Weights

ROUNDING = 512
"""A rise counts where it is larger than so many units of the last place of the terms' absolute sum."""


@dataclass(frozen=True)
class Descent:
    """The two sides of the identity on a batch of steps."""

    change: Float[Tensor, "*batch"]
    """E after the step minus E before it."""
    by_features: Float[Tensor, "*batch"]
    """-D_f(x+ || x)."""
    by_memories: Float[Tensor, "*batch"]
    """-D_h(V_h+ || V_h)."""
    by_delayed: Float[Tensor, "*batch"]
    """What the move of V_d adds; zeros where it is frozen."""
    size: Float[Tensor, "*batch"]
    """Sum of the absolute values of all terms of both energies."""

    @property
    def predicted(self) -> Float[Tensor, "*batch"]:
        """The right side."""
        return self.by_features + self.by_memories + self.by_delayed

    @property
    def error(self) -> Float[Tensor, "*batch"]:
        """What the sides differ by, relative to `size`."""
        return (self.change - self.predicted).abs() / self.size.clamp_min(torch.finfo(self.size.dtype).tiny)

    @property
    def rises(self) -> Bool[Tensor, "*batch"]:
        """Where the energy rises by more than rounding."""
        return beyond_rounding(self.change, self.size)

    def summary(self) -> str:
        """The result in words."""
        steps, rises = self.change.numel(), int(self.rises.sum())
        most = float(self.change.max()) if steps else 0.0
        return (
            f"{steps} steps, {rises} of them up; the largest change is {most:.3g}, and the sides of the identity agree "
            f"to {float(self.error.max()) if steps else 0.0:.1e} of the terms."
        )


def descent(
    weights: Weights,
    x: Float[Tensor, "*batch features"],
    y: Float[Tensor, "*batch features"],
    *,
    following: bool = False,
) -> Descent:
    """What one step from V_f = x with V_d = y does to the energy (Eq 25 of the notes), beside what the identity says.

    Args:
        weights: of the memory.
        x: V_f before the step.
        y: V_d during the step.
        following: whether V_d moves to sigma_f(x+) after it, as in an Elman network, instead of staying frozen.

    >>> weights = Weights.of(torch.randn(4, 3), torch.randn(3, 3), "softmax")
    >>> x, y = torch.randn(2, 1000, 4, dtype=torch.float64)
    >>> seen = descent(weights, x, y)
    >>> bool((seen.change <= 0).all()), bool((seen.error < 1e-12).all())
    (True, True)

    """
    _check(weights, x, y)
    after = weights.step(x, y)
    g, g_after = weights.sigma_f(x), weights.sigma_f(after)
    V_h, V_h_after = weights.memories(g, y), weights.memories(g_after, y)
    y_after = g_after if following else y
    old, new = map_energy(weights, x, y), map_energy(weights, after, y_after)
    moved = weights.sigma_h.value(V_h_after) - weights.sigma_h.value(weights.memories(g_after, y_after))
    return Descent(
        new.total - old.total,
        -weights.sigma_f.divergence(after, x),
        -weights.sigma_h.divergence(V_h_after, V_h),
        moved,
        old.size + new.size,
    )


def beyond_rounding(
    change: Float[Tensor, "*batch"], size: Float[Tensor, "*batch"], precision: torch.dtype = torch.float64
) -> Bool[Tensor, "*batch"]:
    """Where a change is a rise that rounding of terms of this size does not explain."""
    return change > ROUNDING * torch.finfo(precision).eps * size


def _check(weights: Weights, x: Tensor, y: Tensor) -> None:
    for name, given in (("x (V_f)", x), ("y (V_d)", y)):
        if given.shape[-1:] != (weights.features,):
            raise ValueError(f"{name} must be (..., {weights.features}), but is {tuple(given.shape)}.")
        if given.dtype != torch.float64:
            raise ValueError(f"{name} must be float64, as every analysis, but is {given.dtype}; call .double().")
        if not torch.isfinite(given).all():
            raise ValueError(f"{name} contains NaN or infinite values.")
