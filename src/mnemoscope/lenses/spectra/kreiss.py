"""The Kreiss constant: a bound on the growth of a matrix's powers, computed from its resolvent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from mnemoscope.lenses.spectra.resolvent import smallest_singular_values, smallest_triplet

ROUNDING = 1e-10
"""Eigenvalues nearer to the stability boundary than this (for a flow: times |A|) are taken to lie on it, at least."""
RESOLVED = 1e-7
"""Eigenvalues on the boundary that are nearer to each other than this (for a flow: times |A|) count as one."""
UNIFORM, LEADING, HEIGHTS, CLIMBS = 32, 96, 24, 4
"""Size of the search grid: even steps along half the boundary, leading eigenvalues that add a step each, and heights
above the boundary; and the number of local maxima that are refined."""
HIGH, FINER = 0.8, (4, 16)
"""The grid is refined where it reaches this share of its maximum, around at most so many heights and places."""


@dataclass(frozen=True)
class Boundary:
    """Coordinates above the stability boundary: `z = (1 + height) e^(i along)`, for a flow `height + i along`."""

    continuous: bool

    def point(self, height: Any, along: Any) -> Any:
        """Return z; height and place along the boundary may be numbers or arrays."""
        return height + 1j * along if self.continuous else (1 + height) * np.exp(1j * along)

    def depth(self, eigenvalues: np.ndarray) -> np.ndarray:
        """Return the distance of each eigenvalue below the boundary; negative above it."""
        return -np.real(eigenvalues) if self.continuous else 1 - np.abs(eigenvalues)

    def along(self, eigenvalues: np.ndarray) -> np.ndarray:
        """Return the place of each eigenvalue along the boundary."""
        return np.imag(eigenvalues) if self.continuous else np.angle(eigenvalues)


def kreiss_constant(
    S: np.ndarray, norm: float, *, real: bool, continuous: bool = False, rounding: float = ROUNDING
) -> float:
    """Return K = sup over |z| > 1 of (|z| - 1) |(z - A)^-1|; for a flow, over Re z > 0 of Re z |(z - A)^-1|.

    The Kreiss matrix theorem bounds all powers by it, K <= max_t |A^t| <= e N K, and K >= 1, as z -> infinity shows
    (Trefethen & Embree 2005, sections 14 and 18). K is infinite where the powers are not bounded: an eigenvalue lies
    above the boundary, or a defective one on it, where the resolvent rises faster than 1 / height.

    The search evaluates a grid of heights and of places along the boundary. The heights run from gap / (2 N), below
    which the resolvent of N modes no longer changes (or from `RESOLVED`, if eigenvalues lie on the boundary), to
    10 |A|; the places include those of the leading eigenvalues. It then refines the grid where it is high, and
    maximises locally from its highest points. The result is reached at some z, and so never above the supremum.

    S is A in complex upper triangular Schur form, and `norm` is |A|. For a `real` A the lower half of the plane mirrors
    the upper one. If the leading eigenvalue is within `rounding` of the boundary (for a flow, as a share of |A|), all
    are moved so that it lies on the boundary.
    """
    edge, eigenvalues = Boundary(continuous), np.diag(S)
    unit, scale = (norm, norm) if continuous else (1.0, max(norm, 1.0))
    gap = float(edge.depth(eigenvalues).min())
    if gap < -rounding * unit:
        return np.inf
    touching = gap <= rounding * unit
    if touching:  # place it on the boundary exactly
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
    candidates = eigenvalues[edge.along(eigenvalues) >= 0] if real else eigenvalues
    leading = candidates[np.argsort(edge.depth(candidates), kind="stable")[:LEADING]]
    far = norm if edge.continuous else np.pi
    even = np.linspace(0, far, UNIFORM) if real else np.linspace(-far, far, 2 * UNIFORM)
    return np.unique(np.concatenate([even, edge.along(leading)]))


def _ratio(S: np.ndarray, edge: Boundary, heights: np.ndarray, along: np.ndarray) -> np.ndarray:
    """Return height / sigma_min(z - S) on a grid (heights, places)."""
    z = edge.point(heights[:, None], along)
    return heights[:, None] / smallest_singular_values(S, z.ravel(), 1e-2).reshape(z.shape)


def _refined(steps: np.ndarray, tops: np.ndarray, most: int) -> np.ndarray:
    """Divide steps by three next to the highest places of the grid, at most `most` of them."""
    near = np.argsort(-tops, kind="stable")[:most]
    near = near[tops[near] >= HIGH * tops.max()]
    around = np.unique(np.clip([near - 1, near, near + 1], 0, len(steps) - 1))
    between = np.interp(np.arange(0, len(steps) - 2 / 3, 1 / 3), np.arange(len(steps)), steps)
    return np.unique(between[np.unique(np.clip(3 * around[:, None] + np.arange(-1, 2), 0, len(between) - 1))])


def _diverges(S: np.ndarray, edge: Boundary, height: float, along: float) -> bool:
    """Whether height |resolvent| still rises like 1 / height or faster where eigenvalues are no longer resolved."""
    near, nearer = (h / smallest_triplet(S, complex(edge.point(h, along)))[0] for h in (10 * height, height))
    return nearer > 3 * near


def _summits(ratio: np.ndarray) -> list[tuple[int, int]]:
    """Return the highest local maxima of a grid."""
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
    """Maximise height / sigma_min(z - S) by its gradient, d sigma_min = Re(u^* dz v) with singular vectors u, v."""
    warm: dict[str, np.ndarray | None] = {"start": None}

    def objective(at: np.ndarray) -> tuple[float, np.ndarray]:
        above = float(np.exp(at[0]))
        z = complex(edge.point(above, at[1]))
        sigma, left, right, warm["start"] = smallest_triplet(S, z, warm["start"])
        slope = np.vdot(left, right) / sigma
        steps = (above, 1j) if edge.continuous else (above * z / abs(z), 1j * z)
        gradient = np.array([(slope * step).real for step in steps]) - np.array([1, 0])
        return float(np.log(sigma) - at[0]), gradient

    begin = np.array([np.log(height), along])
    bounds = [(begin[0] - 5, begin[0] + 5), (None, None)]
    optimum = minimize(
        objective, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15, "maxiter": 60}
    )
    return float(np.exp(-optimum.fun))
