"""Near a fold: how far it is, leaps towards it, and where the other points of a singular place may lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.bifurcations.continuation_points import Place, weakest
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude

if TYPE_CHECKING:
    from mnemoscope.lenses.bifurcations.tracing import Tracer

LADDER = (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3)
"""Distances along the weakest direction (relative to states larger than 1, rms) at which points are looked for."""


def leaps(tracer: Tracer, here: Place, target: float) -> tuple[list[Place], float]:
    """Places on the way to a fold, as far as one is near: each leap leaves a tenth of the distance.

    Along the weakest direction v, the residual is `s t + c t^2 + b dp`, whose two roots t meet at
    `dp = s^2 / (4 b c)`; where to look, and whom to believe, is told by the nearer root. The prongs of a pitchfork
    look like a fold at a third of their distance from it: there a leap changes little, and steps get on faster.
    Returned beside the places is the step that is worth trying next.
    """
    made: list[Place] = []
    before, least = float("inf"), tracer.least
    while True:
        fold, c, b, s, v = distance(tracer, here, target)
        if abs(fold) > 0.5 * before:
            return made, 1.8 * abs(fold)
        before = abs(fold)
        if not 0 < fold / (target - here.at) < 1 or abs(fold) < least or here.index == 0:
            return made, 0.6 * abs(fold)
        dp = fold - 0.9 * least * (1 if fold > 0 else -1)
        dp = dp if abs(dp) < 0.9 * abs(fold) else 0.9 * fold
        root = (s * s - 4 * b * c * dp) ** 0.5
        guess = here.state + (-2 * b * dp / (s + root)) * v
        new = tracer.corrected(here.at + dp, guess, here.known) if tracer.moderate(here, guess) else None
        if new is None or new.index != here.index or not tracer.as_foretold(here, guess, new):
            return made, 0.6 * abs(fold)
        made.append(new)
        here = new


def distance(tracer: Tracer, here: Place, target: float) -> tuple[float, float, float, float, Tensor]:
    """How far off a fold would be in the parameter, by the quadratic along the weakest direction; c, b, s and v."""
    w, v, s = weakest(here)
    system, beside = tracer.system(here.at), tracer.system(target)
    with torch.no_grad():
        x = here.state[None]
        f = float(w @ system.residual(x)[0])
        c = curvature(system, here, w, v, 1e-4)
        b = (float(w @ beside.residual(x)[0]) - f) / (target - here.at)
    return (s * s / (4 * b * c) if b * c else float("inf")), c, b, s, v


def curvature(system: Dynamics, place: Place, w: Tensor, v: Tensor, share: float) -> float:
    """The c of `w^T r(x + t v) = s t + c t^2`, by differences over a share of the state's size."""
    small = share * float(magnitude(place.state[None]))
    with torch.no_grad():
        sides = system.residual(torch.stack([place.state + small * v, place.state - small * v, place.state])) @ w
    return float(sides[0] + sides[1] - 2 * sides[2]) / (2 * small**2)


def partners(system: Dynamics, place: Place) -> Float[Tensor, "starts size"]:
    """Where other points may lie near a singular place: along its weakest direction v.

    There `w^T r(x + t v) = s t + c t^2 + ...` has its second zero at t = -s / c; a pitchfork, whose c is 0, has two
    more on both sides at a distance that the cubic term tells; a ladder of distances stands for it.
    """
    w, v, s = weakest(place)
    size = float(magnitude(place.state[None]))
    c = curvature(system, place, w, v, 1e-3)
    lengths = [sign * step * size for step in LADDER for sign in (1, -1)]
    if abs(s) < abs(c) * size:
        lengths = [-s / c, *lengths]
    return system.clamp(torch.stack([place.state + length * v for length in lengths]))
