"""Pseudo-arclength continuation (Keller 1977): past a point at which steps in the parameter fail."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.lenses.bifurcations.continuation_points import ContinuationPoint, smallest_singular_triplet
from mnemoscope.lenses.bifurcations.folds import quadratic_coefficient
from mnemoscope.lenses.bifurcations.predictor_corrector import PredictorCorrector
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude

BEYOND = 4.0
"""Tolerances past the failed step after which a branch that has not turned back is taken to continue."""
MAX_STEPS = 100
"""Steps around one bend."""
STRAIGHT = 0.8
"""Least cosine of the angle by which the tangent may turn in one step."""
CORRECTIONS = 6
"""Newton corrections of a step."""
EXACT = 1e-9
"""Residual below which a point is accepted (rms, relative to states larger than 1); the end is refined further."""
LEAST_STEP = 1e-7
"""Shortest step, relative to the size of the state."""


def continue_by_arclength(
    continuation: PredictorCorrector, here: ContinuationPoint, direction: int, limits: tuple[float, float]
) -> ContinuationPoint | None:
    """Continue the branch through `here` past a point at which steps in the parameter fail.

    At a fold the branch turns: it returns to the same parameter at another state, the partner of the fold. If it only
    bends, it continues to parameters beyond. Steps follow the curve of (state, parameter), with the parameter scaled
    such that both move alike at first. Return the point at the parameter of `here` or `BEYOND` tolerances further, or
    None if the curve is lost, leaves the `limits` of the parameter or returns to its beginning.
    """
    if here.index == 0:
        return None
    curve = _Curve(continuation, here, limits)
    y, t = curve.start(direction)
    size = float(magnitude(here.state[None]))
    w, v, s = smallest_singular_triplet(here)
    c = abs(quadratic_coefficient(continuation.system(here.at), here, w, v, 1e-4))
    # A quarter of the distance to the fold of the quadratic model, at most half a tolerance.
    step = min(0.25 * s / c if c else size, 0.5 * continuation.tolerance * curve.speed, 0.1 * size)
    for _ in range(MAX_STEPS):
        new = curve.corrected(y + step * t, t, EXACT * size)
        tangent = None if new is None else curve.tangent(new, t)
        if new is None or tangent is None or float(tangent @ t) < STRAIGHT:
            step *= 0.5
            if step < LEAST_STEP * size:
                return None
            continue
        advance = direction * (curve.parameter(new) - here.at)
        if advance <= 0 or advance >= BEYOND * continuation.tolerance:
            target = here.at if advance <= 0 else here.at + direction * BEYOND * continuation.tolerance
            return _point_between(continuation, curve, here, y, new, target)
        y, t, step = new, tangent, 1.5 * step
    return None


def _point_between(
    continuation: PredictorCorrector, curve: _Curve, here: ContinuationPoint, y: Tensor, new: Tensor, target: float
) -> ContinuationPoint | None:
    """Return the point at a parameter between two points of the curve, from a linear guess; None if it is another."""
    a, b = curve.parameter(y), curve.parameter(new)
    share = (target - a) / (b - a)
    guess = torch.lerp(y, new, share)[:-1]
    point = continuation.corrected(target, guess)
    if point is None:
        return None
    distance = float((point.state - guess).norm())
    if point.index == 0 or distance > float((new - y)[:-1].norm()) or torch.equal(point.state, here.state):
        return None
    return point


class _Curve:
    """The curve r(x, p) = 0 in y = (x, scaled p)."""

    def __init__(self, continuation: PredictorCorrector, here: ContinuationPoint, limits: tuple[float, float]) -> None:
        self.continuation, self.here, self.limits = continuation, here, limits
        self.speed = 1.0
        """|dx/dp| at the first point: the scale of the parameter."""

    def parameter(self, y: Tensor) -> float:
        return self.here.at + float(y[-1]) / self.speed

    def start(self, direction: int) -> tuple[Tensor, Tensor]:
        """Return the first point, and the tangent there towards the given direction of the parameter."""
        x = self.here.state
        slope = -torch.linalg.lu_solve(*self.here.factors, self._parameter_derivative(x, self.here.at)[:, None])[:, 0]
        self.speed = max(float(slope.norm()), 1e-12)
        t = torch.cat([slope / self.speed, slope.new_ones(1)]) * (direction / 2**0.5)
        return torch.cat([x, x.new_zeros(1)]), t

    def corrected(self, guess: Tensor, t: Tensor, exact: float) -> Tensor | None:
        """Solve r = 0 by Newton's method in the plane through the guess that is orthogonal to the tangent."""
        y = guess
        for _ in range(CORRECTIONS):
            at = self.parameter(y)
            if not self.limits[0] <= at <= self.limits[1]:
                return None
            f = self.continuation.system(at).residual(y[None, :-1])[0]
            if float(f.norm()) <= exact:
                return y
            residual = torch.cat([f, ((y - guess) @ t)[None]])
            move = self._solve(y, t, residual)
            if move is None:
                return None
            y = y - move
        return None

    def tangent(self, y: Tensor, t: Tensor) -> Tensor | None:
        """Return the unit tangent at a point of the curve, in the direction of the last one."""
        unit = torch.zeros_like(y)
        unit[-1] = 1
        new = self._solve(y, t, unit)
        return None if new is None else new / new.norm()

    def _solve(self, y: Tensor, t: Tensor, right: Tensor) -> Tensor | None:
        """Solve [[r_x, r_p], [t_x, t_p]] z = right, which is regular at a fold, unlike r_x alone."""
        at, x = self.parameter(y), y[:-1]
        G = self.continuation.system(at).residual_jacobian(x[None])[0]
        r_p = self._parameter_derivative(x, at) / self.speed
        M = torch.cat([torch.cat([G, r_p[:, None]], 1), t[None]])
        z, failed = torch.linalg.solve_ex(M, right)
        return z if int(failed) == 0 and bool(torch.isfinite(z).all()) else None

    def _parameter_derivative(self, x: Tensor, at: float) -> Tensor:
        """Return r_p from a difference over a thousandth of the tolerance, towards the inside of the limits."""
        offset = 1e-3 * self.continuation.tolerance
        other = at + offset if at + offset <= self.limits[1] else at - offset
        system, other_system = self.continuation.system(at), self.continuation.system(other)
        return (other_system.residual(x[None])[0] - system.residual(x[None])[0]) / (other - at)
