"""Detection of continuous families of cycles, of which no list can be complete."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.result import MARGIN, FixedPoints

OFFSET = 0.1
"""Distance from a root at which another is searched, as a share of its norm, or of 1 if that is larger."""
RESIDUAL = 1e-6
"""Largest residual of a neighbouring root, as a share of its distance: weights in single precision keep an amplitude no
better. At an isolated root of order p, such as 3 where cycles branch off, it is about `OFFSET`^(p - 1)."""
PROBED = 4
"""Degenerate roots of a k-fold map that are probed."""
CORRECTIONS = 6
"""Newton steps back to a curved family."""
SINGULAR = 1e-6
"""Singular values of the residual's Jacobian below which a direction is not corrected."""
RETURNED = 1e-3
"""A state that returns to this share of its distance from a root has completed its period."""


def family_periods(dynamics: Dynamics, k_fold: Dynamics, k: int, roots: FixedPoints) -> set[int]:
    """Return the least periods of the families of cycles at roots of the k-fold map; empty if all are isolated.

    A family continues along eigenvectors of the eigenvalue 1 of the k-fold map. So a root is displaced along these and
    corrected to the nearest root without moving along them. The result must be a root, to single precision, and
    different from the first one.

    >>> import mnemoscope as ms
    >>> from mnemoscope.lenses.attractors.composition import iterated_map
    >>> turn = ms.Dynamics(ms.adapt(lambda x, h: torch.stack([-h[:, 1], h[:, 0]], 1), state_size=2))
    >>> origin = ms.find_fixed_points(iterated_map(turn, 4), torch.zeros(1, 2).double())
    >>> family_periods(turn, iterated_map(turn, 4), 4, origin)
    {4}

    """
    periods: set[int] = set()
    for point in _degenerate(roots):
        state = roots.states[point].to(dynamics.origin)
        step = OFFSET * max(1.0, float(state.norm()))
        probes = state + step * _neutral_directions(roots.jacobians[point]).to(state)
        neighbours = _corrected(k_fold, probes)
        exact = k_fold.residual(neighbours).norm(dim=1) <= RESIDUAL * step
        away = (neighbours - state).norm(dim=1) >= 0.5 * step
        periods |= {_least_period(dynamics, found, k, RETURNED * step) for found in neighbours[exact & away]}
    return periods


def _degenerate(roots: FixedPoints) -> list[int]:
    """Return the first few roots with an eigenvalue 1, as representatives of all."""
    found = []
    for point in range(len(roots)):
        if len(found) == PROBED:
            break
        G = roots.jacobians[point] - torch.eye(roots.states.shape[1], dtype=roots.jacobians.dtype)
        if float(torch.linalg.svdvals(G)[-1]) <= MARGIN:
            found.append(point)
    return found


def _neutral_directions(J: Float[Tensor, "size size"]) -> Float[Tensor, "directions size"]:
    """Return unit eigenvectors of the eigenvalue 1 and a random mixture of them, with both signs."""
    G = J.double().cpu().numpy() - np.eye(len(J))
    _, sizes, rows = np.linalg.svd(G)
    kernel = rows[sizes <= MARGIN]
    mixed = kernel.T @ np.random.default_rng(0).standard_normal(len(kernel))
    directions = np.vstack([kernel[:PROBED], mixed / np.linalg.norm(mixed)])
    return torch.from_numpy(np.vstack([directions, -directions]))


def _corrected(k_fold: Dynamics, states: Float[Tensor, "probes size"]) -> Float[Tensor, "probes size"]:
    """Apply Newton's method without the directions in which the residual hardly changes."""
    eye = torch.eye(states.shape[1], dtype=states.dtype, device=states.device)
    for _ in range(CORRECTIONS):
        with torch.no_grad():
            residual, G = k_fold.residual(states), k_fold.jacobian(states) - eye
        if not bool(torch.isfinite(G).all()):
            break
        inverse = torch.linalg.pinv(G, atol=SINGULAR, rtol=0.0)
        states = states - (inverse @ residual[:, :, None])[:, :, 0]
    return states


def _least_period(dynamics: Dynamics, state: Float[Tensor, " size"], k: int, distance: float) -> int:
    image = state[None]
    with torch.no_grad():
        for m in range(1, k):
            image = dynamics(image)
            if k % m == 0 and float((image[0] - state).norm()) <= distance:
                return m
    return k
