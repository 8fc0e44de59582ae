"""The numerical range of a matrix, `{x^* A x : |x| = 1}`: its rightmost point and its radius."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from mnemoscope.base.array_types import Inexact

DIRECTIONS = 32
"""Number of directions in which half the numerical range is measured before its farthest point is refined."""


def numerical_abscissa(A: Inexact[Tensor, "size size"]) -> float:
    """Return the largest Re x^* A x over unit vectors."""
    return float(torch.linalg.eigvalsh((A + A.mH) / 2)[-1])


def numerical_radius(A: np.ndarray) -> float:
    """Return the largest |x^* A x| over unit vectors.

    The largest eigenvalue of Re(e^(i phi) A) is computed in evenly spaced directions phi, and the best direction is
    refined: with its eigenvector x, the direction of x^* A x is a better one. At worst the result is 0.12 % too small,
    usually by less than 1e-9.
    """
    if np.iscomplexobj(A):
        directions = np.linspace(-np.pi, np.pi, 2 * DIRECTIONS, endpoint=False)
    else:
        directions = np.linspace(0, np.pi, DIRECTIONS + 1)
    phi = max(directions, key=lambda direction: float(_leading(A, direction, eigvals_only=True)[0]))
    best = 0.0
    for _ in range(100):
        (reach,), x = _leading(A, phi)
        if reach <= best * (1 + 1e-10):
            break
        best, phi = float(reach), -float(np.angle(np.vdot(x, A @ x)))
    return best


def _leading(A: np.ndarray, phi: float, *, eigvals_only: bool = False) -> Any:
    """Return the largest eigenvalue, in an array, and the eigenvector of the Hermitian part of e^(i phi) A."""
    rotated = np.exp(1j * phi) * A
    last = len(A) - 1
    half = (rotated + rotated.conj().T) / 2
    return scipy.linalg.eigh(half, subset_by_index=[last, last], eigvals_only=eigvals_only, check_finite=False)
