"""The least stable eigenvalues of a Jacobian, and how many are unstable, without all of them where states are large."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, eigs
from torch import Tensor

from mnemoscope.shapes import Float

DENSE = 300
"""Up to this size all eigenvalues are computed."""
FIRST = 16
"""Eigenvalues that Arnoldi's method is first asked for."""


def leading_eigenvalues(jacobian: Float[Tensor, "size size"], number: int, continuous: bool) -> tuple[np.ndarray, int]:
    """At least `number` leading eigenvalues (fewer of a smaller state), least stable first, and how many are unstable.

    Above `DENSE`, Arnoldi's method is asked for more and more, until one of them is stable; where it does not converge,
    all are computed after all.
    """
    J = jacobian.detach().cpu().numpy()
    size = len(J)
    wanted = max(number, FIRST)
    values = None
    while size > DENSE and 4 * wanted < size and values is None:
        start = np.random.default_rng(0).standard_normal(size)  # the same eigenvalues, run after run
        try:
            found: Any = eigs(
                J, wanted, which="LR" if continuous else "LM", v0=start, maxiter=60, ncv=3 * wanted,
                return_eigenvectors=False,
            )  # fmt: skip
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
    return values, int((growth(values, continuous) > 0).sum())


def growth(values: np.ndarray, continuous: bool) -> np.ndarray:
    """Log |lambda| of a map, Re lambda of a flow."""
    return np.real(values) if continuous else np.log(np.maximum(np.abs(values), 1e-300))
