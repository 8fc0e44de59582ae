"""Round a bend: a branch followed by its own length where steps in the parameter fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.lenses.bifurcations.continuation_points import Place, weakest
from mnemoscope.lenses.bifurcations.folds import curvature
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude

if TYPE_CHECKING:
    from mnemoscope.lenses.bifurcations.tracing import Tracer

ON = 4.0
"""So many tolerances past the place where steps failed, a branch that has not turned back goes on."""
MOST_ARCS = 100
"""Steps round one bend."""
STRAIGHT = 0.8
"""The least cosine of the angle by which a step may turn."""
NEWTON = 6
"""Corrections of a step."""
EXACT = 1e-9
"""A residual that is smaller (relative to states larger than 1, rms) is none; the end is found more exactly."""
LEAST_ARC = 1e-7
"""Steps below this (relative to the state's size) are given up."""


def round_the_bend(tracer: Tracer, here: Place, direction: int, limits: tuple[float, float]) -> Place | None:
    """Where the branch through `here` leads, past a place at which steps in the parameter fail.

    At a fold the branch turns: it comes back to the same parameter at another state, the partner of the fold. Where it
    only bends, it goes on to parameters beyond. Steps are taken along the curve of (state, parameter), with the
    parameter scaled such that both move alike at first (pseudo-arclength continuation, Keller 1977).

    Returns the place at the parameter of `here` or `ON` tolerances beyond; None where the curve is lost, leaves the
    `limits` of the parameter or comes back to its beginning.
    """
    if here.index == 0:
        return None
    curve = _Curve(tracer, here, limits)
    y, t = curve.beginning(direction)
    size = float(magnitude(here.state[None]))
    w, v, s = weakest(here)
    c = abs(curvature(tracer.system(here.at), here, w, v, 1e-4))
    # a quarter of the way to the fold as the quadratic has it, or half a tolerance where there is none
    step = min(0.25 * s / c if c else size, 0.5 * tracer.tolerance * curve.speed, 0.1 * size)
    for _ in range(MOST_ARCS):
        new = curve.corrected(y + step * t, t, EXACT * size)
        turned = None if new is None else curve.tangent(new, t)
        if new is None or turned is None or float(turned @ t) < STRAIGHT:
            step *= 0.5
            if step < LEAST_ARC * size:
                return None
            continue
        gone = direction * (curve.parameter(new) - here.at)
        if gone <= 0 or gone >= ON * tracer.tolerance:
            target = here.at if gone <= 0 else here.at + direction * ON * tracer.tolerance
            return _there(tracer, curve, here, y, new, target)
        y, t, step = new, turned, 1.5 * step
    return None


def _there(tracer: Tracer, curve: _Curve, here: Place, y: Tensor, new: Tensor, target: float) -> Place | None:
    """The point at a parameter between two on the curve, from the straight line between them."""
    a, b = curve.parameter(y), curve.parameter(new)
    share = (target - a) / (b - a)
    guess = torch.lerp(y, new, share)[:-1]
    place = tracer.corrected(target, guess)
    if place is None:
        return None
    off = float((place.state - guess).norm())
    if place.index == 0 or off > float((new - y)[:-1].norm()) or torch.equal(place.state, here.state):
        return None
    return place


class _Curve:
    """The curve r(x, p) = 0 in y = (x, scaled p)."""

    def __init__(self, tracer: Tracer, here: Place, limits: tuple[float, float]) -> None:
        self.tracer, self.here, self.limits = tracer, here, limits
        self.speed = 1.0
        """|dx/dp| at the beginning: how a parameter is scaled."""

    def parameter(self, y: Tensor) -> float:
        return self.here.at + float(y[-1]) / self.speed

    def beginning(self, direction: int) -> tuple[Tensor, Tensor]:
        """The first point, and the tangent there towards the given direction of the parameter."""
        x = self.here.state
        slope = -torch.linalg.lu_solve(*self.here.factors, self._by_parameter(x, self.here.at)[:, None])[:, 0]
        self.speed = max(float(slope.norm()), 1e-12)
        t = torch.cat([slope / self.speed, slope.new_ones(1)]) * (direction / 2**0.5)
        return torch.cat([x, x.new_zeros(1)]), t

    def corrected(self, guess: Tensor, t: Tensor, exact: float) -> Tensor | None:
        """Newton's method on r = 0 in the plane through the guess across the tangent."""
        y = guess
        for _ in range(NEWTON):
            at = self.parameter(y)
            if not self.limits[0] <= at <= self.limits[1]:
                return None
            f = self.tracer.system(at).residual(y[None, :-1])[0]
            if float(f.norm()) <= exact:
                return y
            off = torch.cat([f, ((y - guess) @ t)[None]])
            move = self._solved(y, t, off)
            if move is None:
                return None
            y = y - move
        return None

    def tangent(self, y: Tensor, t: Tensor) -> Tensor | None:
        """The unit tangent at a point of the curve, in the direction of the last one."""
        unit = torch.zeros_like(y)
        unit[-1] = 1
        new = self._solved(y, t, unit)
        return None if new is None else new / new.norm()

    def _solved(self, y: Tensor, t: Tensor, right: Tensor) -> Tensor | None:
        """Solve [[r_x, r_p], [t_x, t_p]] z = right: regular at a fold, where r_x alone is not."""
        at, x = self.parameter(y), y[:-1]
        G = self.tracer.system(at).residual_jacobian(x[None])[0]
        r_p = self._by_parameter(x, at) / self.speed
        M = torch.cat([torch.cat([G, r_p[:, None]], 1), t[None]])
        z, failed = torch.linalg.solve_ex(M, right)
        return z if int(failed) == 0 and bool(torch.isfinite(z).all()) else None

    def _by_parameter(self, x: Tensor, at: float) -> Tensor:
        """r_p by a difference over a thousandth of the tolerance, inwards."""
        aside = 1e-3 * self.tracer.tolerance
        beside = at + aside if at + aside <= self.limits[1] else at - aside
        there, own = self.tracer.system(beside), self.tracer.system(at)
        return (there.residual(x[None])[0] - own.residual(x[None])[0]) / (beside - at)
