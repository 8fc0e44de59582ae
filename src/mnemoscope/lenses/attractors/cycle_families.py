"""Whether cycles lie beside each other in a continuum, so that no list of them can be complete."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.result import MARGIN, FixedPoints

ASIDE = 0.1
"""How far beside a root another is looked for, as a share of its norm, or of 1 where that is larger."""
ROOT = 1e-6
"""The residual of a root beside another, as a share of how far it is from it: weights in single precision keep an
amplitude no better. At an isolated root of order p, such as where cycles part (3), it is about `ASIDE`^(p - 1)."""
PROBED = 4
"""Degenerate roots of a k-fold map that are looked at."""
CORRECTIONS = 6
"""Newton's steps back to a family that is curved."""
SINGULAR = 1e-6
"""Directions in which a residual changes by less than this, per unit, are not corrected along."""


NEAR = 1e-3
"""A state that comes back to this share of its distance from a root has come round."""


def family_periods(dynamics: Dynamics, fold: Dynamics, k: int, roots: FixedPoints) -> set[int]:
    """Least periods of the families of cycles beside the roots of the k-fold map; none where all roots are isolated.

    A family goes on along eigenvectors of the eigenvalue 1 of the k-fold map. So a root is moved along these, and taken
    back to the nearest root without moving along them: it must then be a root, to single precision, and another one.

    >>> import mnemoscope as ms
    >>> from mnemoscope.lenses.attractors.composed import iterated
    >>> turn = ms.Dynamics(ms.adapt(lambda x, h: torch.stack([-h[:, 1], h[:, 0]], 1), state_size=2))
    >>> origin = ms.find_fixed_points(iterated(turn, 4), torch.zeros(1, 2).double())
    >>> family_periods(turn, iterated(turn, 4), 4, origin)
    {4}

    """
    periods: set[int] = set()
    for point in _degenerate(roots):
        state = roots.states[point].to(dynamics.origin)
        step = ASIDE * max(1.0, float(state.norm()))
        probes = state + step * _directions(roots.jacobians[point]).to(state)
        beside = _corrected(fold, probes)
        exact = fold.residual(beside).norm(dim=1) <= ROOT * step
        away = (beside - state).norm(dim=1) >= 0.5 * step
        periods |= {_least_period(dynamics, own, k, NEAR * step) for own in beside[exact & away]}
    return periods


def _degenerate(roots: FixedPoints) -> list[int]:
    """The first few with an eigenvalue 1; they stand for all."""
    found = []
    for point in range(len(roots)):
        if len(found) == PROBED:
            break
        G = roots.jacobians[point] - torch.eye(roots.states.shape[1], dtype=roots.jacobians.dtype)
        if float(torch.linalg.svdvals(G)[-1]) <= MARGIN:
            found.append(point)
    return found


def _directions(J: Float[Tensor, "size size"]) -> Float[Tensor, "directions size"]:
    """Unit vectors that J keeps, and one that is none of them but a mixture, both ways."""
    G = J.double().cpu().numpy() - np.eye(len(J))
    _, sizes, rows = np.linalg.svd(G)
    kept = rows[sizes <= MARGIN]
    mixed = kept.T @ np.random.default_rng(0).standard_normal(len(kept))
    kept = np.vstack([kept[:PROBED], mixed / np.linalg.norm(mixed)])
    return torch.from_numpy(np.vstack([kept, -kept]))


def _corrected(fold: Dynamics, states: Float[Tensor, "probes size"]) -> Float[Tensor, "probes size"]:
    """Newton's method without the directions in which the residual hardly changes."""
    eye = torch.eye(states.shape[1], dtype=states.dtype, device=states.device)
    for _ in range(CORRECTIONS):
        with torch.no_grad():
            residual, G = fold.residual(states), fold.jacobian(states) - eye
        if not bool(torch.isfinite(G).all()):
            break
        inverse = torch.linalg.pinv(G, atol=SINGULAR, rtol=0.0)
        states = states - (inverse @ residual[:, :, None])[:, :, 0]
    return states


def _least_period(dynamics: Dynamics, state: Float[Tensor, " size"], k: int, near: float) -> int:
    image = state[None]
    with torch.no_grad():
        for m in range(1, k):
            image = dynamics(image)
            if k % m == 0 and float((image[0] - state).norm()) <= near:
                return m
    return k
