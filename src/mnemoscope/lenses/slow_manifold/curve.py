"""A curve through settled states, open or closed, and the coordinate along it: its arc length."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mnemoscope.lenses.slow_manifold.homology import farthest_points, pairwise_distances, spanning_tree

VERTICES = 60
"""Largest number of vertices of a curve."""
REACH = 1.5
"""Width of the kernel that orders the vertices, in units of the widest gap between them."""


@dataclass(frozen=True)
class Curve:
    """A polygon through states; positions along it are arc lengths from its first vertex."""

    vertices: np.ndarray
    """(vertices, size); a closed curve does not repeat its first vertex."""
    closed: bool
    detour: float = 1.0
    """Length of the curve over that of the shortest tree through its vertices: near 1 unless the states branch."""

    @cached_property
    def _ends(self) -> np.ndarray:
        """End of the segment that begins at each vertex."""
        return np.roll(self.vertices, -1, 0) if self.closed else self.vertices[1:]

    @cached_property
    def _steps(self) -> np.ndarray:
        return self._ends - self.vertices[: len(self._ends)]

    @cached_property
    def _lengths(self) -> np.ndarray:
        return np.linalg.norm(self._steps, axis=1)

    @property
    def length(self) -> float:
        """Length of the whole curve."""
        return float(self._lengths.sum())

    def project(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the position of the nearest point of the curve, the unit tangent there, and the distance from it.

        An open curve continues straight beyond its ends.
        """
        begin = self.vertices[: len(self._steps)]
        offset = states[:, None] - begin  # (states, segments, size)
        share = (offset * self._steps).sum(2) / self._lengths**2
        low, high = np.zeros(len(begin)), np.ones(len(begin))
        if not self.closed:
            low[0], high[-1] = -np.inf, np.inf
        share = np.clip(share, low, high)
        apart = np.linalg.norm(offset - share[:, :, None] * self._steps, axis=2)
        segment = apart.argmin(1)
        rows = np.arange(len(states))
        before = np.cumsum(self._lengths) - self._lengths
        position = before[segment] + share[rows, segment] * self._lengths[segment]
        tangent = self._steps[segment] / self._lengths[segment, None]
        return position, tangent, apart[rows, segment]

    def difference(self, later: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        """Return the signed way from one position to another, the shorter way round a closed curve."""
        way = later - earlier
        return (way + self.length / 2) % self.length - self.length / 2 if self.closed else way


def fit_curve(states: np.ndarray, closed: bool) -> Curve:
    """Return the curve through evenly spread landmarks of the states, in the order of their place along it.

    The order comes from the slowest modes of diffusion among the landmarks (diffusion maps; Coifman & Lafon 2006): the
    first mode rises along an open curve, and the first two are cosine and sine on a closed one.
    """
    net = states[farthest_points(states, VERTICES)]
    apart = pairwise_distances(net)
    tree = [apart[edge] for edge in spanning_tree(apart)]
    gap = max(tree)
    kernel = np.exp(-((apart / (REACH * gap)) ** 2))
    density = kernel.sum(1)
    kernel = kernel / np.outer(density, density)  # so that the order does not depend on where states crowd
    degree = np.sqrt(kernel.sum(1))
    modes = np.linalg.eigh(kernel / np.outer(degree, degree))[1][:, ::-1] / degree[:, None]
    along = np.arctan2(modes[:, 2], modes[:, 1]) if closed else modes[:, 1]
    curve = Curve(net[np.argsort(along)], closed)
    return replace(curve, detour=curve.length / (sum(tree) + closed * gap))
