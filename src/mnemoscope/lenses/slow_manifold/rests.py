"""Where a slow manifold rests: the fixed points on it, and sign changes of its drift where none was found."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.fixed_points.starts import advance
from mnemoscope.lenses.slow_manifold.drift import CurveDrift, Drift
from mnemoscope.lenses.slow_manifold.homology import farthest_points, pairwise_distances
from mnemoscope.lenses.slow_manifold.view import View, as_array

NEAR = 0.05
"""Fixed points within this share of the diameter lie on the manifold."""
SAME = 0.02
"""A sign change of the drift within this share of the range of a fixed point belongs to it."""
STARTS = 8
"""Evenly spread states from which fixed points are searched."""
MOST = 40
"""Sign changes that are all examined; among more, only those that stand out from the scatter."""
HALVINGS, RELAXING = 10, 30
"""How often the interval around a rest is halved, and steps in which its new middle returns to the manifold."""


def fixed_points_on(
    dynamics: Dynamics,
    view: View,
    states: Float[Tensor, "states size"],
    drift: Drift,
    known: FixedPoints | None,
    seed: int,
) -> FixedPoints:
    """Return the fixed points near the manifold of these states.

    The search starts from places at which the drift nearly vanishes, and from the known points or evenly spread states.
    """
    with torch.no_grad():
        shown = view(states)
    more = shown[farthest_points(as_array(shown), STARTS).tolist()] if known is None else known.states.to(shown)
    starts = torch.cat([_resting(view, states, shown, drift), more])
    if not len(starts):
        return known[[]] if known is not None else find_fixed_points(dynamics, shown[:1], seed=seed)[[]]
    fp = find_fixed_points(dynamics, starts, seed=seed)
    if not len(fp):
        return fp[[]]
    near = (
        pairwise_distances(as_array(fp.states), as_array(shown)).min(1)
        <= NEAR * pairwise_distances(as_array(shown)).max()
    )
    return fp[np.flatnonzero(near).tolist()]


def rests_on_curve(drift: Drift, points: FixedPoints, window: int) -> dict[str, Any]:
    """Return where a curve rests: at the fixed points on it. A sign change of the drift without one is doubtful.

    A fixed point on an attracting curve is stable if its index is 1, and unstable if it is -1. This sign is certain,
    even where the eigenvalue along the curve is too close to 1 to be judged by its size.
    """
    if not isinstance(drift, CurveDrift) or drift.still:
        return {}
    changes, rests, stable = drift.sign_changes()[0], np.zeros(0), np.zeros(0, bool)
    if window == 1 and len(points):
        index = points.index.cpu().numpy()
        rests, stable = drift.place(as_array(points.states))[index != 0], index[index != 0] > 0
        order = np.argsort(rests)
        rests, stable = rests[order], stable[order]
        apart = np.abs(drift.curve.difference(rests, changes[:, None])).min(1, initial=np.inf)
        changes = changes[apart > SAME * drift.range]
    return {
        "rests": torch.from_numpy(rests),
        "rests_stable": torch.from_numpy(stable),
        "doubtful": torch.from_numpy(changes),
    }


def _resting(view: View, states: Tensor, shown: Tensor, drift: Drift) -> Tensor:
    """Return states at which the drift nearly vanishes."""
    if isinstance(drift, CurveDrift) and view.window == 1:
        pairs = drift.sign_changes(clear=False)[1]  # a search decides which of them are real
        return _halved(view, states, *(pairs if len(pairs) <= MOST else drift.sign_changes()[1]).T)
    return shown[drift.slowest()] if not isinstance(drift, CurveDrift) else shown[:0]


@torch.no_grad()
def _halved(view: View, states: Tensor, before: np.ndarray, after: np.ndarray) -> Tensor:
    """Return states close to the rests between pairs of states whose drift along the curve has opposite signs.

    Newton's method from afar leaves a curve along which the drift is small, while halving the interval cannot miss the
    rest. The new middle returns to the curve before the sign of its motion is read; drift keeps the order of states.
    """
    low, high = states[before.tolist()], states[after.tolist()]
    rising = _along(view, low, high - low) > 0
    for _ in range(HALVINGS if len(low) else 0):
        middle = advance(view.system, (low + high) / 2, RELAXING)
        same = (_along(view, middle, high - low) > 0) == rising
        low, high = torch.where(same[:, None], middle, low), torch.where(same[:, None], high, middle)
    return (low + high) / 2


def _along(view: View, states: Tensor, direction: Tensor) -> Tensor:
    return ((advance(view.system, states, RELAXING) - states) * direction).sum(1)
