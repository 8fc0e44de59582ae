"""Constraints on a recurrent matrix: its largest singular value, Frobenius norm and spectral radius.

Balls of the two norms are convex, and the nearest point of their intersection has the same singular vectors: it is
enough to project the singular values on a box and a ball. The matrices of a spectral radius of at most r are not
convex. But up to an orthogonal change of basis, which changes no memory, a matrix with real eigenvalues is lower
triangular (Schur), and the lower triangular matrices with a diagonal in -r ... r are convex. The nearest point of that
set and the balls is found by alternating projections with corrections (Dykstra).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float

NEAR = 1e-9
"""Distance between the points of the two sets at which the alternation ends; scaling removes the rest."""
MOST_ROUNDS = 500
"""Largest number of alternating projections."""


@dataclass(frozen=True)
class Constraint:
    """Upper limits; None for no limit. With a radius, matrices are lower triangular."""

    norm: float | None
    frobenius: float | None
    radius: float | None = None

    @property
    def largest(self) -> float:
        """The largest singular value that is allowed."""
        return min(limit for limit in (self.norm, self.frobenius, float("inf")) if limit is not None)

    @property
    def binding(self) -> Constraint:
        """The same without a redundant radius: no eigenvalue exceeds the largest singular value."""
        is_binding = self.radius is not None and self.radius < self.largest
        return Constraint(self.norm, self.frobenius, self.radius if is_binding else None)

    def nearest(self, A: Float[Tensor, "size size"]) -> Float[Tensor, "size size"]:
        """Return the nearest allowed matrix.

        >>> A = torch.diag(torch.tensor([3.0, 1.0, 0.5], dtype=torch.float64))
        >>> Constraint(norm=2.0, frobenius=None).nearest(A).diagonal().tolist()
        [2.0, 1.0, 0.5]
        """
        matrix = A.detach().numpy()
        nearest = self._nearest_in_norm(matrix) if self.radius is None else self._alternating(matrix, self.radius)
        return torch.from_numpy(nearest)

    def _nearest_in_norm(self, A: np.ndarray) -> np.ndarray:
        left, values, right = np.linalg.svd(A)
        kept = self._nearest_values(values)
        return A if np.array_equal(kept, values) else (left * kept) @ right

    def _nearest_values(self, values: np.ndarray) -> np.ndarray:
        """Project on the box and the ball: `min(values / (1 + m), norm)`, m >= 0 such that the Frobenius norm holds."""
        limit = np.inf if self.norm is None else self.norm
        boxed = np.minimum(values, limit)
        if self.frobenius is None or np.linalg.norm(boxed) <= self.frobenius:
            return boxed
        scale = 1.0
        for cut in range(len(values)):  # so many of the largest values end at the limit
            room = self.frobenius**2 - (cut * limit**2 if cut else 0.0)
            scale = (room / np.square(values[cut:]).sum()) ** 0.5
            if values[cut] * scale <= limit:
                break
        return np.minimum(values * scale, limit)

    def _alternating(self, A: np.ndarray, radius: float) -> np.ndarray:
        triangle = _triangle(A, radius)
        first, second = np.zeros_like(A), A * _mask(len(A)) - triangle  # Dykstra's corrections
        for _ in range(MOST_ROUNDS):
            ball = self._nearest_in_norm(triangle + first)
            first = triangle + first - ball
            triangle = _triangle(ball + second, radius)
            second = ball + second - triangle
            if np.abs(triangle - ball).max() < NEAR:
                break
        return self._shrunk(triangle)

    def _shrunk(self, A: np.ndarray) -> np.ndarray:
        """Scale by the remaining excess of the alternation, so that the limits hold exactly."""
        excess = 1.0
        if self.norm is not None:
            excess = max(excess, float(np.linalg.norm(A, 2)) / self.norm)
        if self.frobenius is not None:
            excess = max(excess, float(np.linalg.norm(A)) / self.frobenius)
        return A / excess


def _triangle(A: np.ndarray, radius: float) -> np.ndarray:
    lower = A * _mask(len(A))
    diagonal = lower.reshape(-1)[:: len(A) + 1]
    np.clip(diagonal, -radius, radius, out=diagonal)
    return lower


@cache
def _mask(size: int) -> np.ndarray:
    return np.tri(size)
