"""Quadratic models of the residual near a fold: its distance, and starts for the other points nearby.

Along the weakest direction v, the right singular vector of the least singular value s of the residual's Jacobian, the
residual is `w^T r(x + t v, p + dp) = s t + c t^2 + b dp`. Its two roots t meet at `dp = s^2 / (4 b c)`, the fold.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.bifurcations.continuation_points import ContinuationPoint, smallest_singular_triplet
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude

LADDER = (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3)
"""Distances along the weakest direction at which points are searched (rms, relative to states larger than 1)."""


class FoldModel(NamedTuple):
    """The quadratic `s t + c t^2 + b dp` along the weakest direction v of a point."""

    s: float
    c: float
    b: float
    v: Tensor

    @property
    def distance(self) -> float:
        """Signed distance of the fold in the parameter."""
        bc = self.b * self.c
        return self.s * self.s / (4 * self.b * self.c) if bc else float("inf")

    def displacement(self, dp: float) -> Tensor:
        """Return the change of the state to the nearer root at a parameter `dp` further on."""
        root = (self.s * self.s - 4 * self.b * self.c * dp) ** 0.5
        return (-2 * self.b * dp / (self.s + root)) * self.v


def fold_model(system: Dynamics, point: ContinuationPoint, other: Dynamics, other_at: float) -> FoldModel:
    """Return the quadratic model at a point of `system`; the system at another parameter gives b."""
    w, v, s = smallest_singular_triplet(point)
    x = point.state[None]
    b = (float(w @ other.residual(x)[0]) - float(w @ system.residual(x)[0])) / (other_at - point.at)
    return FoldModel(s, quadratic_coefficient(system, point, w, v, 1e-4), b, v)


def quadratic_coefficient(system: Dynamics, point: ContinuationPoint, w: Tensor, v: Tensor, share: float) -> float:
    """Return the c of `w^T r(x + t v) = s t + c t^2`, by differences over a share of the state's size."""
    small = share * float(magnitude(point.state[None]))
    sides = system.residual(torch.stack([point.state + small * v, point.state - small * v, point.state])) @ w
    return float(sides[0] + sides[1] - 2 * sides[2]) / (2 * small**2)


def partner_starts(system: Dynamics, point: ContinuationPoint) -> Float[Tensor, "starts size"]:
    """Return starts for the other points near a singular one, along its weakest direction v.

    There `w^T r(x + t v) = s t + c t^2 + ...` has its second zero at t = -s / c. A pitchfork has c = 0 and two more
    zeros, one on either side, at a distance that the cubic term determines; a ladder of distances covers it.
    """
    w, v, s = smallest_singular_triplet(point)
    size = float(magnitude(point.state[None]))
    c = quadratic_coefficient(system, point, w, v, 1e-3)
    lengths = [sign * step * size for step in LADDER for sign in (1, -1)]
    if abs(s) < abs(c) * size:
        lengths = [-s / c, *lengths]
    return system.clamp(torch.stack([point.state + length * v for length in lengths]))
