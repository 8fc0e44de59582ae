"""The least stable eigenvalues of a Jacobian and the number of unstable ones, by Arnoldi's method for large states."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, eigs
from torch import Tensor

from mnemoscope.base.array_types import Float

DENSE = 300
"""Largest state size at which all eigenvalues are computed."""
FIRST = 2
"""Eigenvalues of the first Arnoldi run: if few stand out from many, only those few converge soon."""
MOST = 16
"""Largest number of eigenvalues of an Arnoldi run: computing all takes no longer."""
ROUNDING = 1e-9
"""Growth below which a mode is on the stability boundary to rounding: orthogonal matrices are not unstable."""
RESTARTS = 8
"""Arnoldi restarts after which all eigenvalues are computed instead."""


def leading_eigenvalues(jacobian: Float[Tensor, "size size"], continuous: bool) -> tuple[np.ndarray, int]:
    """Return the leading eigenvalues, least stable first, and the number of unstable ones; all up to the size `DENSE`.

    Larger matrices use Arnoldi's method with more and more eigenvalues until one of them is stable. If it does not
    converge, all eigenvalues are computed.
    """
    J = jacobian.detach().cpu().numpy()
    size, values, wanted = len(J), None, FIRST
    while size > DENSE and wanted <= MOST and values is None:
        start = np.random.default_rng(0).standard_normal(size)  # the same eigenvalues in every run
        options: dict[str, Any] = {"v0": start, "tol": 1e-9, "ncv": max(4 * wanted, 24), "maxiter": RESTARTS}
        try:
            found: Any = eigs(J, wanted, which="LR" if continuous else "LM", return_eigenvectors=False, **options)
        except ArpackNoConvergence:
            break
        if growth(found, continuous).min() < 0:
            values = np.asarray(found)
        wanted *= 2
    if values is None:
        values = np.linalg.eigvals(J)
    # In a complex pair, the eigenvalue above the real axis comes first.
    order = np.lexsort((-np.imag(values), -np.round(growth(values, continuous), 12)))
    values = np.asarray(values, complex)[order]
    return values, int((growth(values, continuous) > ROUNDING).sum())


def growth(values: np.ndarray, continuous: bool) -> np.ndarray:
    """Return log |lambda| for a map, Re lambda for a flow."""
    return np.real(values) if continuous else np.log(np.maximum(np.abs(values), 1e-300))
