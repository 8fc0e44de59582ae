"""How many directions of a large linear system grow, without all of its eigenvalues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs

ARNOLDI = 400
"""From this size on Arnoldi's iteration is faster than all eigenvalues."""
MOST = 24
"""More unstable directions than this are counted from all eigenvalues."""
CONVERGED = 1e-7
"""Relative accuracy of eigenvalues, far below `SLACK` margins."""
SLACK = 10.0
"""An eigenvalue within this many margins of the stability boundary is left to the full computation."""


@dataclass(frozen=True)
class Boundary:
    """Which eigenvalues grow: of a map those outside the unit circle, of a flow those with a positive real part.

    Growth within `margin` of 0 counts as marginal.
    """

    continuous: bool
    margin: float

    def growth(self, values: np.ndarray) -> np.ndarray:
        """Log |lambda| of a map, Re lambda of a flow."""
        with np.errstate(divide="ignore"):  # an eigenvalue 0 shrinks infinitely fast
            return np.real(values) if self.continuous else np.log(np.abs(values))


def unstable_directions(J: np.ndarray, boundary: Boundary, index: int = 0) -> int | None:
    """The number of unstable eigenvalues by Arnoldi's iteration, or None where that leaves a doubt.

    The leading eigenvalues are computed, more and more of them, until one is stable. Then everything is checked: each
    eigenpair by its residual; what is left beside them by a second run from another vector, which must find nothing
    unstable (one run alone sees a repeated eigenvalue once); and the number of real ones that grow past 1 (of a flow:
    past 0) by its parity, which `index` = sign det(I - J) (of a flow: sign det(-J)) tells if it is not 0. No marginal
    eigenvalue is left where the answer is a number.
    """
    size, which = len(J), "LR" if boundary.continuous else "LM"
    for number in (2, 8, MOST):
        if number + 2 >= size:
            return None
        pairs = _leading(J, number, which, CONVERGED, seed=0)
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
    if np.any(residuals[up] > 10 * CONVERGED * np.abs(values).max()):
        return None
    real = up & (np.imag(values) == 0) & (np.real(values) > 0)
    if index and (-1) ** int(real.sum()) != index:
        return None
    return int(up.sum()) if _nothing_left(J, vectors[:, up], boundary, which) else None


def _nothing_left(J: np.ndarray, found: np.ndarray, boundary: Boundary, which: str) -> bool:
    """Whether no unstable eigenvalue is left beside those with these eigenvectors."""
    if not found.shape[1]:  # the leading eigenvalue itself is stable
        return True
    # complex eigenvectors come in conjugate pairs: their real and imaginary parts span the same space
    basis = np.linalg.qr(np.concatenate([np.real(found), np.imag(found)], 1), mode="reduced")
    Q = _spanned(basis[0], basis[1], found.shape[1])
    if Q is None:
        return False
    shift = 0.0 if not boundary.continuous else -2 * np.abs(J).sum(0).max()  # where the removed ones cannot lead

    def multiply(v: np.ndarray) -> np.ndarray:
        v = v.reshape(-1)
        inside = Q @ (Q.T @ v)
        v = v - inside
        w = J @ v
        return w - Q @ (Q.T @ w) + shift * inside

    operator: Any = LinearOperator
    rest = operator(J.shape, matvec=multiply, dtype=J.dtype)
    left = _leading(rest, 2, which, 1e-4, seed=1)
    return left is not None and bool(boundary.growth(left[0]).max() < -SLACK * boundary.margin)


def _leading(operator: Any, number: int, which: str, accuracy: float, seed: int) -> tuple[Any, Any] | None:
    """Leading eigenvalues and their vectors by ARPACK, or None where it does not converge."""
    size = operator.shape[0]
    start = np.random.default_rng(seed).standard_normal(size)
    search: Any = eigs  # scipy's own annotations know neither a float tolerance nor what is returned
    try:
        return search(
            operator, number, which=which, v0=start, ncv=min(size, 2 * number + 30), maxiter=100, tol=accuracy
        )
    except ArpackError:
        return None


def _spanned(Q: np.ndarray, R: np.ndarray, dimension: int) -> np.ndarray | None:
    """An orthonormal basis of what the columns of Q R span, if that has this dimension for certain."""
    U, singular, _ = np.linalg.svd(R)
    kept = singular > 1e-6 * singular[0]
    return Q @ U[:, :dimension] if kept.sum() == dimension else None
