"""The Kreiss constant: how far the powers of a matrix must grow, read off its resolvent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from mnemoscope.lenses.spectra.resolvent import smallest_singular_values, smallest_triplet

ROUNDING = 1e-10
"""Eigenvalues nearer to the boundary of stability than this (of a flow: times |A|) are taken to lie on it, at least."""
RESOLVED = 1e-7
"""Eigenvalues on the boundary that are nearer to each other than this (of a flow: times |A|) count as one."""
UNIFORM, LEADING, HEIGHTS, CLIMBS = 32, 96, 24, 4
"""Of the grid of the search: even steps along half the boundary, leading eigenvalues that add a step of their own,
heights above the boundary; and the number of summits that are climbed from there.
"""
HIGH, FINER = 0.8, (4, 16)
"""The grid is made finer where it comes to this share of its maximum, about so many heights and places at most."""


@dataclass(frozen=True)
class Boundary:
    """Above the boundary of stability: `z = (1 + height) e^(i along)` of a map, `height + i along` of a flow."""

    continuous: bool

    def point(self, height: Any, along: Any) -> Any:
        """Numbers or arrays alike."""
        return height + 1j * along if self.continuous else (1 + height) * np.exp(1j * along)

    def depth(self, eigenvalues: np.ndarray) -> np.ndarray:
        """How far below the boundary each lies; negative above it."""
        return -np.real(eigenvalues) if self.continuous else 1 - np.abs(eigenvalues)

    def along(self, eigenvalues: np.ndarray) -> np.ndarray:
        return np.imag(eigenvalues) if self.continuous else np.angle(eigenvalues)


def kreiss_constant(
    S: np.ndarray, norm: float, *, real: bool, continuous: bool = False, rounding: float = ROUNDING
) -> float:
    """K = sup over |z| > 1 of (|z| - 1) |(z - A)^-1|; of a flow, over Re z > 0 of Re z |(z - A)^-1|.

    The Kreiss matrix theorem bounds all powers by it, K <= max_t |A^t| <= e N K, and K >= 1, as z -> infinity shows
    (Trefethen & Embree 2005, sections 14 and 18). Infinite where the powers are not bounded: an eigenvalue lies above
    the boundary, or a defective one on it, where the resolvent rises faster than 1 / height.

    The search looks at a grid of heights, from gap / (2 N), below which the resolvent of N modes no longer changes
    (or from `RESOLVED`, where eigenvalues lie on the boundary), to 10 |A|, and of places along the boundary, those
    of the leading eigenvalues among them; then at a finer grid where that is high, and climbs from its highest
    summits. What it finds is reached at some z, and so never above the supremum.

    Args:
        S: A in complex upper triangular Schur form (size, size).
        norm: |A|.
        real: whether A is real, so that the lower half of the plane mirrors the upper one.
        continuous: whether A generates a flow.
        rounding: how near to the boundary eigenvalues are taken to lie on it, of a flow as a share of |A|; if the
            leading one is that near, all are moved such that it does.

    """
    edge, eigenvalues = Boundary(continuous), np.diag(S)
    unit, scale = (norm, norm) if continuous else (1.0, max(norm, 1.0))
    gap = float(edge.depth(eigenvalues).min())
    if gap < -rounding * unit:
        return np.inf
    touching = gap <= rounding * unit
    if touching:  # on the boundary, then, whatever rounding has made of it
        S = S + gap * np.eye(len(S)) if continuous else S / (1 - gap)
        eigenvalues = np.diag(S)
    lowest = RESOLVED * unit if touching else gap / (2 * len(S))
    heights = np.geomspace(lowest, 10 * scale, HEIGHTS)
    along = _places(edge, eigenvalues, norm, real)
    ratio = _ratio(S, edge, heights, along)
    if touching and _diverges(S, edge, lowest, float(along[ratio[0].argmax()])):
        return np.inf
    heights, along = _refined(heights, ratio.max(1), FINER[0]), _refined(along, ratio.max(0), FINER[1])
    ratio = _ratio(S, edge, heights, along)
    tops = [_climb(S, edge, float(heights[row]), float(along[place])) for row, place in _summits(ratio)]
    return max(1.0, *tops)


def _places(edge: Boundary, eigenvalues: np.ndarray, norm: float, real: bool) -> np.ndarray:
    seen = eigenvalues[edge.along(eigenvalues) >= 0] if real else eigenvalues
    leading = seen[np.argsort(edge.depth(seen), kind="stable")[:LEADING]]
    far = norm if edge.continuous else np.pi
    even = np.linspace(0, far, UNIFORM) if real else np.linspace(-far, far, 2 * UNIFORM)
    return np.unique(np.concatenate([even, edge.along(leading)]))


def _ratio(S: np.ndarray, edge: Boundary, heights: np.ndarray, along: np.ndarray) -> np.ndarray:
    """What is to be made large, height / sigma_min(z - S), on a grid (heights, places)."""
    z = edge.point(heights[:, None], along)
    return heights[:, None] / smallest_singular_values(S, z.ravel(), 1e-2).reshape(z.shape)


def _refined(steps: np.ndarray, tops: np.ndarray, most: int) -> np.ndarray:
    """Three steps for one, next to where the best of the grid comes near to its maximum, at `most` places."""
    near = np.argsort(-tops, kind="stable")[:most]
    near = near[tops[near] >= HIGH * tops.max()]
    around = np.unique(np.clip([near - 1, near, near + 1], 0, len(steps) - 1))
    between = np.interp(np.arange(0, len(steps) - 2 / 3, 1 / 3), np.arange(len(steps)), steps)
    return np.unique(between[np.unique(np.clip(3 * around[:, None] + np.arange(-1, 2), 0, len(between) - 1))])


def _diverges(S: np.ndarray, edge: Boundary, height: float, along: float) -> bool:
    """Whether height |resolvent| still rises like 1 / height or faster where eigenvalues are no longer told apart."""
    near, nearer = (one / smallest_triplet(S, complex(edge.point(one, along)))[0] for one in (10 * height, height))
    return nearer > 3 * near


def _summits(ratio: np.ndarray) -> list[tuple[int, int]]:
    """The highest places of a grid that no neighbour tops."""
    padded = np.pad(ratio, 1, constant_values=-np.inf)
    rows, columns = ratio.shape
    around = [
        padded[1 + down : 1 + down + rows, 1 + right : 1 + right + columns]
        for down in (-1, 0, 1)
        for right in (-1, 0, 1)
    ]
    tops = np.argwhere(ratio >= np.max(around, axis=0))
    order = np.argsort(-ratio[tops[:, 0], tops[:, 1]], kind="stable")[:CLIMBS]
    return [(int(row), int(place)) for row, place in tops[order]]


def _climb(S: np.ndarray, edge: Boundary, height: float, along: float) -> float:
    """The top of height / sigma_min(z - S), by its gradient: d sigma_min = Re(u^* dz v) (u, v the singular vectors)."""
    held: dict[str, np.ndarray | None] = {"start": None}

    def descent(at: np.ndarray) -> tuple[float, np.ndarray]:
        above = float(np.exp(at[0]))
        z = complex(edge.point(above, at[1]))
        sigma, left, right, held["start"] = smallest_triplet(S, z, held["start"])
        slope = np.vdot(left, right) / sigma
        steps = (above, 1j) if edge.continuous else (above * z / abs(z), 1j * z)
        gradient = np.array([(slope * step).real for step in steps]) - np.array([1, 0])
        return float(np.log(sigma) - at[0]), gradient

    begin = np.array([np.log(height), along])
    bounds = [(begin[0] - 5, begin[0] + 5), (None, None)]
    found = minimize(descent, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15, "maxiter": 60})
    return float(np.exp(-found.fun))
