"""The resolvent of a triangular matrix: the smallest singular value of `z - A` at many points z."""

from __future__ import annotations

import numpy as np
import scipy.linalg

SMALL = 12
"""Size up to which all singular values are computed, which is then as fast as computing the smallest alone."""
ROWS = 32
"""Number of rows of a block in the triangular solves."""


def smallest_singular_values(S: np.ndarray, z: np.ndarray, tolerance: float = 1e-6, steps: int = 60) -> np.ndarray:
    """Return sigma_min(z I - S) at each z (points,), S (size, size) upper triangular.

    Inverse Lanczos iteration (Lui 1997; Trefethen & Embree 2005, section 39): the largest eigenvalue of
    `(z - S)^-1 (z - S)^-*` is 1 / sigma_min^2, and a product costs two triangular solves, done for all points together.
    A point is finished when its relative change is below `tolerance`. Values below the rounding error of S, about
    1e-16 |S|, are accurate to that error only.
    """
    if len(S) <= SMALL:
        return np.linalg.svd(z[:, None, None] * np.eye(len(S)) - S, compute_uv=False)[:, -1]
    sigma = np.zeros(len(z))
    points, gap = np.arange(len(z)), _gaps(S, z)
    new = np.random.default_rng(0).standard_normal((len(S), 2)) @ np.array([1, 1j])
    # annotated, because pyright takes 15 s to infer the types through the loop
    v: np.ndarray = np.repeat((new / np.linalg.norm(new))[:, None], len(z), axis=1)  # (size, points)
    beta: np.ndarray = np.zeros(len(z))
    value: np.ndarray = np.zeros(len(z))
    old, alphas, betas = np.zeros_like(v), np.zeros((len(z), 0)), np.zeros((len(z), 0))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for _ in range(min(steps, len(S))):
            w = _solve(S, gap, _solve_adjoint(S, gap, v)) - beta * old
            alpha = np.einsum("sp,sp->p", v.conj(), w).real
            w -= alpha * v
            alphas, betas = np.column_stack([alphas, alpha]), np.column_stack([betas, beta])
            beta = np.linalg.norm(w, axis=0)
            before, value = value, _largest(alphas, betas[:, 1:])
            sigma[points] = np.where(np.isfinite(value), value, np.inf) ** -0.5
            active = np.isfinite(value) & (np.abs(value - before) > 2 * tolerance * value) & (beta > 1e-14 * value)
            if not active.any():
                break
            old, v = v[:, active], w[:, active] / beta[active]
            points, gap, beta, value = points[active], gap[:, active], beta[active], value[active]
            alphas, betas = alphas[active], betas[active]
    return sigma


def smallest_triplet(
    S: np.ndarray, z: complex, start: np.ndarray | None = None
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Return sigma_min(z - S) to rounding, its left and right singular vector, and a start for a nearby z.

    Inverse subspace iteration with Rayleigh-Ritz steps, (z - S) v = sigma u.
    """
    M = z * np.eye(len(S)) - S
    np.fill_diagonal(M, _gaps(S, np.array([z]))[:, 0])
    if len(S) <= 2 * SMALL:
        left, sigma, right = np.linalg.svd(M)
        return float(sigma[-1]), left[:, -1], right[-1].conj(), left
    Y = np.random.default_rng(0).standard_normal((len(S), 4)).astype(complex) if start is None else start
    Y = np.linalg.qr(Y)[0]
    before, left, sigma, right = np.inf, Y, np.ones(1), Y
    for _ in range(200):
        X = scipy.linalg.solve_triangular(M, Y, check_finite=False)  # sigma^-1 v of each direction u
        right, inverse, turned = np.linalg.svd(X, full_matrices=False)
        left, sigma = Y @ turned.conj().T, 1 / inverse
        if abs(sigma[0] - before) <= 1e-14 * sigma[0]:
            break
        before = sigma[0]
        Y = np.linalg.qr(scipy.linalg.solve_triangular(M, right, trans=2, check_finite=False))[0]  # 2: adjoint
    return float(sigma[0]), left[:, 0], right[:, 0], left


def _gaps(S: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the diagonal of z - S, (size, points), kept away from 0 by the rounding error."""
    gap = z - np.diag(S)[:, None]
    floor = np.finfo(float).eps * max(float(np.abs(S).max()), np.finfo(float).tiny ** 0.25)
    return np.where(np.abs(gap) < floor, floor, gap)


def _solve(S: np.ndarray, gap: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve (z - S) x = right for every z, from the last row up."""
    x = right.copy()
    for start in range((len(S) - 1) // ROWS * ROWS, -1, -ROWS):
        stop = min(start + ROWS, len(S))
        for row in range(stop - 1, start - 1, -1):
            x[row] = (x[row] + S[row, row + 1 : stop] @ x[row + 1 : stop]) / gap[row]
        x[:start] += S[:start, start:stop] @ x[start:stop]
    return x


def _solve_adjoint(S: np.ndarray, gap: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve (z - S)^* x = right for every z, from the first row down."""
    x, adjoint, divide = right.copy(), S.conj().T, gap.conj()
    for start in range(0, len(S), ROWS):
        stop = min(start + ROWS, len(S))
        for row in range(start, stop):
            x[row] = (x[row] + adjoint[row, start:row] @ x[start:row]) / divide[row]
        x[stop:] += adjoint[stop:, start:stop] @ x[start:stop]
    return x


def _largest(alphas: np.ndarray, betas: np.ndarray) -> np.ndarray:
    """Return the largest eigenvalue of each tridiagonal matrix, diagonals (points, steps) and (points, steps - 1)."""
    steps = alphas.shape[1]
    matrices = np.zeros((len(alphas), steps, steps))
    index = np.arange(steps)
    matrices[:, index, index] = alphas
    matrices[:, index[1:], index[:-1]] = betas
    finite = np.isfinite(matrices).all((1, 2))
    largest = np.full(len(alphas), np.inf)
    largest[finite] = np.linalg.eigvalsh(matrices[finite], UPLO="L")[:, -1]
    return largest
