"""The least stable eigenvalues of a Jacobian and the number of unstable ones, by Arnoldi's method for large states.

scipy is imported where Arnoldi's method begins: it takes a third of the time of torch to import.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from mnemoscope.base.array_types import Float

ARNOLDI = 400
"""From this size on, Arnoldi's iteration is faster than the computation of all eigenvalues."""
MOST_LEADING = 24
"""Upper limit of leading eigenvalues; with more unstable directions, all eigenvalues are computed."""
ACCURACY = 1e-7
"""Relative accuracy of the eigenvalues, far below `SLACK` margins."""
DENSE = 300
"""Largest state size at which `leading_eigenvalues` computes all eigenvalues."""
FIRST = 2
"""Eigenvalues of the first Arnoldi run: if few stand out from many, only those few converge soon."""
MOST = 16
"""Largest number of eigenvalues of an Arnoldi run: computing all takes no longer."""
ROUNDING = 1e-9
"""Growth below which a mode is on the stability boundary to rounding: orthogonal matrices are not unstable."""
RESTARTS = 8
"""Arnoldi restarts after which all eigenvalues are computed instead."""
SLACK = 10.0
"""If an eigenvalue lies within this many margins of the stability boundary, all eigenvalues are computed."""


def growth(values: np.ndarray, continuous: bool) -> np.ndarray:
    """Return the growth rate of each eigenvalue: log |lambda| for a map, Re lambda for a flow."""
    return np.real(values) if continuous else np.log(np.maximum(np.abs(values), 1e-300))


def leading_eigenvalues(jacobian: Float[Tensor, "size size"], continuous: bool) -> tuple[np.ndarray, int]:
    """Return the leading eigenvalues, least stable first, and the number of unstable ones; all up to the size `DENSE`.

    Larger matrices use Arnoldi's method with more and more eigenvalues until one of them is stable. If it does not
    converge, all eigenvalues are computed.
    """
    J = jacobian.detach().cpu().numpy()
    values = _leading_by_arnoldi(J, continuous) if len(J) > DENSE else None
    if values is None:
        values = np.linalg.eigvals(J)
    # In a complex pair, the eigenvalue above the real axis comes first.
    order = np.lexsort((-np.imag(values), -np.round(growth(values, continuous), 12)))
    values = np.asarray(values, complex)[order]
    return values, int((growth(values, continuous) > ROUNDING).sum())


def _leading_by_arnoldi(J: np.ndarray, continuous: bool) -> np.ndarray | None:
    """Return the leading eigenvalues up to the first stable one, or None if `MOST` are too few or do not converge."""
    from scipy.sparse.linalg import ArpackNoConvergence, eigs

    wanted = FIRST
    while wanted <= MOST:
        start = np.random.default_rng(0).standard_normal(len(J))  # the same eigenvalues in every run
        options: dict[str, Any] = {"v0": start, "tol": 1e-9, "ncv": max(4 * wanted, 24), "maxiter": RESTARTS}
        try:
            found: Any = eigs(J, wanted, which="LR" if continuous else "LM", return_eigenvectors=False, **options)
        except ArpackNoConvergence:
            return None
        if growth(found, continuous).min() < 0:
            return np.asarray(found)
        wanted *= 2
    return None


def unstable_directions(J: np.ndarray, continuous: bool, margin: float, index: int = 0) -> int | None:
    """Return the number of unstable eigenvalues by Arnoldi's iteration, or None where the count is not certain.

    More and more leading eigenvalues are computed until one of them is stable. Three checks follow. Each eigenpair must
    have a small residual. A second run from another vector, with the found eigenvectors projected out, must find
    nothing unstable, since one run alone finds a repeated eigenvalue once. The number of real eigenvalues above 1 (for
    a flow: above 0) must have the parity that a nonzero `index` = sign det(I - J) (for a flow: sign det(-J)) implies.
    If a number is returned, no eigenvalue is marginal: no growth rate lies within `margin` of 0.
    """
    size = len(J)
    for number in (2, 8, MOST_LEADING):
        if number + 2 >= size:
            return None
        pairs = leading_eigenpairs(J, number, continuous, ACCURACY, seed=0)
        if pairs is None:
            return None
        values, vectors = pairs
        rates = growth(values, continuous)
        if rates.min() < -SLACK * margin:
            break
    else:
        return None
    if np.any(np.abs(rates) <= SLACK * margin):
        return None
    up = rates > 0
    residuals = np.linalg.norm(J @ vectors - vectors * values, axis=0)
    if np.any(residuals[up] > 10 * ACCURACY * np.abs(values).max()):
        return None
    real = up & (np.imag(values) == 0) & (np.real(values) > 0)
    if index and (-1) ** int(real.sum()) != index:
        return None
    return int(up.sum()) if _rest_is_stable(J, vectors[:, up], continuous, margin) else None


def _rest_is_stable(J: np.ndarray, found: np.ndarray, continuous: bool, margin: float) -> bool:
    """Whether all eigenvalues are stable except those with the eigenvectors `found`."""
    from scipy.sparse.linalg import LinearOperator

    if not found.shape[1]:  # the leading eigenvalue itself is stable
        return True
    # complex eigenvectors come in conjugate pairs: their real and imaginary parts span the same space
    Q, R = np.linalg.qr(np.concatenate([np.real(found), np.imag(found)], 1), mode="reduced")
    U, singular, _ = np.linalg.svd(R)
    if (singular > 1e-6 * singular[0]).sum() != found.shape[1]:  # the dimension of the span is uncertain
        return False
    Q = Q @ U[:, : found.shape[1]]
    # the removed eigenvalues move to `shift`, where they cannot lead
    shift = -2 * np.abs(J).sum(0).max() if continuous else 0.0

    def multiply(v: np.ndarray) -> np.ndarray:
        v = v.reshape(-1)
        inside = Q @ (Q.T @ v)
        v = v - inside
        w = J @ v
        return w - Q @ (Q.T @ w) + shift * inside

    operator: Any = LinearOperator
    rest = operator(J.shape, matvec=multiply, dtype=J.dtype)
    leading = leading_eigenpairs(rest, 2, continuous, 1e-4, seed=1)
    return leading is not None and bool(growth(leading[0], continuous).max() < -SLACK * margin)


def leading_eigenpairs(
    operator: Any, number: int, continuous: bool, accuracy: float, seed: int
) -> tuple[Any, Any] | None:
    """Return the leading eigenvalues and eigenvectors by ARPACK, or None if it does not converge."""
    from scipy.sparse.linalg import ArpackError, eigs

    size = operator.shape[0]
    start = np.random.default_rng(seed).standard_normal(size)
    search: Any = eigs  # scipy's annotations allow no float tolerance, and omit the return type
    try:
        options = {"v0": start, "tol": accuracy, "ncv": min(size, 2 * number + 30), "maxiter": 100}
        return search(operator, number, which="LR" if continuous else "LM", **options)
    except ArpackError:
        return None
