"""The number of unstable directions of a large linear system, without all of its eigenvalues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs

ARNOLDI = 400
"""From this size on, Arnoldi's iteration is faster than the computation of all eigenvalues."""
MOST_LEADING = 24
"""Upper limit of leading eigenvalues; with more unstable directions, all eigenvalues are computed."""
ACCURACY = 1e-7
"""Relative accuracy of the eigenvalues, far below `SLACK` margins."""
SLACK = 10.0
"""If an eigenvalue lies within this many margins of the stability boundary, all eigenvalues are computed."""


@dataclass(frozen=True)
class Boundary:
    """The stability boundary: the unit circle of a map, the imaginary axis of a flow.

    A growth rate within `margin` of 0 counts as marginal.
    """

    continuous: bool
    margin: float

    def growth(self, values: np.ndarray) -> np.ndarray:
        """Return the growth rate of each eigenvalue: log |lambda| for a map, Re lambda for a flow."""
        with np.errstate(divide="ignore"):  # the mode of an eigenvalue 0 decays infinitely fast
            return np.real(values) if self.continuous else np.log(np.abs(values))


def unstable_directions(J: np.ndarray, boundary: Boundary, index: int = 0) -> int | None:
    """Return the number of unstable eigenvalues by Arnoldi's iteration, or None where the count is not certain.

    More and more leading eigenvalues are computed until one of them is stable. Three checks follow. Each eigenpair must
    have a small residual. A second run from another vector, with the found eigenvectors projected out, must find
    nothing unstable, since one run alone finds a repeated eigenvalue once. The number of real eigenvalues above 1 (for
    a flow: above 0) must have the parity that a nonzero `index` = sign det(I - J) (for a flow: sign det(-J)) implies.
    If a number is returned, no eigenvalue is marginal.
    """
    size, which = len(J), "LR" if boundary.continuous else "LM"
    for number in (2, 8, MOST_LEADING):
        if number + 2 >= size:
            return None
        pairs = _leading_eigenpairs(J, number, which, ACCURACY, seed=0)
        if pairs is None:
            return None
        values, vectors = pairs
        growth = boundary.growth(values)
        if growth.min() < -SLACK * boundary.margin:
            break
    else:
        return None
    if np.any(np.abs(growth) <= SLACK * boundary.margin):
        return None
    up = growth > 0
    residuals = np.linalg.norm(J @ vectors - vectors * values, axis=0)
    if np.any(residuals[up] > 10 * ACCURACY * np.abs(values).max()):
        return None
    real = up & (np.imag(values) == 0) & (np.real(values) > 0)
    if index and (-1) ** int(real.sum()) != index:
        return None
    return int(up.sum()) if _rest_is_stable(J, vectors[:, up], boundary, which) else None


def _rest_is_stable(J: np.ndarray, found: np.ndarray, boundary: Boundary, which: str) -> bool:
    """Whether all eigenvalues are stable except those with the eigenvectors `found`."""
    if not found.shape[1]:  # the leading eigenvalue itself is stable
        return True
    # complex eigenvectors come in conjugate pairs: their real and imaginary parts span the same space
    Q, R = np.linalg.qr(np.concatenate([np.real(found), np.imag(found)], 1), mode="reduced")
    U, singular, _ = np.linalg.svd(R)
    if (singular > 1e-6 * singular[0]).sum() != found.shape[1]:  # the dimension of the span is uncertain
        return False
    Q = Q @ U[:, : found.shape[1]]
    # the removed eigenvalues move to `shift`, where they cannot lead
    shift = 0.0 if not boundary.continuous else -2 * np.abs(J).sum(0).max()

    def multiply(v: np.ndarray) -> np.ndarray:
        v = v.reshape(-1)
        inside = Q @ (Q.T @ v)
        v = v - inside
        w = J @ v
        return w - Q @ (Q.T @ w) + shift * inside

    operator: Any = LinearOperator
    rest = operator(J.shape, matvec=multiply, dtype=J.dtype)
    leading = _leading_eigenpairs(rest, 2, which, 1e-4, seed=1)
    return leading is not None and bool(boundary.growth(leading[0]).max() < -SLACK * boundary.margin)


def _leading_eigenpairs(operator: Any, number: int, which: str, accuracy: float, seed: int) -> tuple[Any, Any] | None:
    """Return the leading eigenvalues and eigenvectors by ARPACK, or None if it does not converge."""
    size = operator.shape[0]
    start = np.random.default_rng(seed).standard_normal(size)
    search: Any = eigs  # scipy's annotations allow no float tolerance, and omit the return type
    try:
        return search(
            operator, number, which=which, v0=start, ncv=min(size, 2 * number + 30), maxiter=100, tol=accuracy
        )
    except ArpackError:
        return None
