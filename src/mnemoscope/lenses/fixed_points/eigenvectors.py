"""Left eigenvectors that are biorthogonal to given right ones, also where some eigenvalues are defective."""

from __future__ import annotations

import numpy as np

COUPLED = 1e-10
"""Modes are biorthogonal up to this share of their products with their own partners."""
CLOSE = 1e-3
"""Modes of eigenvalues that differ by less than this share of the largest can depend on each other; the products of
others vanish up to rounding."""


def left_eigenvectors(J: np.ndarray, values: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return left eigenvectors in columns, L with L^T R = I, for the eigenvalues and right eigenvectors of a matrix.

    They are computed as eigenvectors and not as the inverse of R, which one defective eigenvalue would spoil for all
    modes. The columns of a defective eigenvalue, for which no such vector exists, are NaN if its products vanish to
    rounding; otherwise they are long.
    """
    from scipy.linalg import eig  # not at the top: scipy takes a third of the time of torch to import
    from scipy.optimize import linear_sum_assignment
    from scipy.sparse.csgraph import connected_components

    found, conjugate = (np.asarray(part, complex) for part in eig(J, left=True, right=False))
    left = conjugate.conj()  # l^H J = lambda l^H, while L^T R = I takes no conjugate
    # the order of equal or conjugate eigenvalues may differ between two libraries
    left = left[:, linear_sum_assignment(np.abs(values[:, None] - found))[1]]
    products = left.T @ right
    sizes = np.sqrt(np.abs(np.diagonal(products)))
    coupled = np.abs(products) > COUPLED * np.outer(sizes, sizes)
    coupled &= np.abs(values[:, None] - values) <= CLOSE * np.abs(values).max()
    number, block = connected_components(coupled, directed=False)
    result = np.full_like(left, np.nan)
    for modes in (np.flatnonzero(block == label) for label in range(number)):
        gram = products[np.ix_(modes, modes)]
        try:
            # (left A^T)^T R = A left^T R = I for A the inverse of the products
            result[:, modes] = left[:, modes] @ np.linalg.inv(gram).T
        except np.linalg.LinAlgError:
            continue
    return result
