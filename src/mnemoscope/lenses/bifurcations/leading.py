"""The least stable eigenvalues of a Jacobian, and how many are unstable, without all of them where states are large."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, eigs
from torch import Tensor

from mnemoscope.base.array_types import Float

DENSE = 300
"""Up to this size all eigenvalues are computed."""
FIRST = 2
"""Eigenvalues that Arnoldi's method is first asked for: where few stand out of many, only those few are found soon."""
MOST = 16
"""Beyond this it is never asked for: all together take no longer."""
ROUNDING = 1e-9
"""A mode that grows by less is on the boundary, as far as rounding tells: orthogonal matrices are not unstable."""
RESTARTS = 8
"""After so many restarts without success, all eigenvalues are computed."""


def leading_eigenvalues(jacobian: Float[Tensor, "size size"], continuous: bool) -> tuple[np.ndarray, int]:
    """The leading eigenvalues, least stable first, and how many are unstable; all of them up to the size `DENSE`.

    Above, Arnoldi's method is asked for more and more, until one of them is stable; where it does not converge, all are
    computed after all.
    """
    J = jacobian.detach().cpu().numpy()
    size, values, wanted = len(J), None, FIRST
    while size > DENSE and wanted <= MOST and values is None:
        start = np.random.default_rng(0).standard_normal(size)  # the same eigenvalues, run after run
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
    # a complex pair keeps its order: the one above the real axis first
    order = np.lexsort((-np.imag(values), -np.round(growth(values, continuous), 12)))
    values = np.asarray(values, complex)[order]
    return values, int((growth(values, continuous) > ROUNDING).sum())


def growth(values: np.ndarray, continuous: bool) -> np.ndarray:
    """Log |lambda| of a map, Re lambda of a flow."""
    return np.real(values) if continuous else np.log(np.maximum(np.abs(values), 1e-300))
