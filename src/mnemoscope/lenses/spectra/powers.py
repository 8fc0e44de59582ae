"""Growth of the powers of a matrix before they decay, and its numerical radius, which bounds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact

DOUBLING = 64
"""Number of steps after which the time step of a flow doubles, so that fast and slow modes are both resolved."""
DIRECTIONS = 32
"""Number of directions in which half the numerical range is measured before its farthest point is refined."""


@dataclass(frozen=True)
class Growth:
    """|A^t| (for a flow |exp(t A)|) over time, from t = 0.

    Where all eigenvalues lie on the unit circle, it is bounded or grows like a power of t, never exponentially. For
    the triangular matrix with 1 on its diagonal and x everywhere above it, Kerg's thesis (Prop 3.4.2) has

        (A^t)_ij = p_(j-i)(x),  a polynomial without constant term whose coefficient of x^l is O(binomial(t, l));

    that coefficient is in fact binomial(t, l) binomial(j - i - 1, l - 1), as `A = 1 + x s / (1 - s)` in the shift s
    shows, so that |A^t| grows like t^(N-1), however small x is.
    """

    times: Float[Tensor, " times"]
    norms: Float[Tensor, " times"]
    settled: bool
    """Whether a norm of at most 1 was met again. No later norm can then exceed the earlier ones, because
    |A^(k t + r)| <= |A^t|^k |A^r|."""

    @property
    def peak(self) -> float:
        """The largest norm."""
        return float(self.norms.max())

    @property
    def time(self) -> float:
        """The first time at which the norm is largest."""
        return float(self.times[self.norms.argmax()])

    @property
    def exponent(self) -> float:
        """The exponent p of a power law t^p, fitted to the second half of the curve by least squares of logarithms."""
        later = slice(max(len(self.times) // 2, 1), None)
        x, y = self.times[later].log(), self.norms[later].log()
        return float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())


def power_norms(
    A: Inexact[Tensor, "size size"],
    steps: int,
    *,
    continuous: bool = False,
    slack: float = 1e-14,
    until_settled: bool = False,
) -> Growth:
    """Return the norms of A^0 ... A^steps; for a flow, of exp(t A) at as many times, from 1 / (20 |A|) on.

    With `until_settled`, stop as soon as the largest norm is certain. `slack` is the possible rounding error of a norm
    of 1.
    """
    if steps < 1:
        raise ValueError(f"Growth is computed over at least 1 step, but steps is {steps}.")
    matrix = A.resolve_conj().numpy()
    once: np.ndarray = matrix  # annotated, because pyright takes 9 s to infer the type through the loop
    step = 1.0
    if continuous:
        step = 0.05 / max(spectral_norm(matrix), np.finfo(float).tiny ** 0.5)
        once = scipy.linalg.expm(step * matrix)
    times, norms, power, settled = [0.0], [1.0], once, False
    for number in range(1, steps + 1):
        norm = spectral_norm(power)
        times.append(times[-1] + step)
        norms.append(norm)
        settled |= norm <= 1 + slack
        if norm > 1e150 or (settled and until_settled):
            break
        if continuous and number % DOUBLING == 0:
            step, once = 2 * step, once @ once
        power = power @ once
    return Growth(torch.tensor(times, dtype=torch.float64), torch.tensor(norms, dtype=torch.float64), settled)


def spectral_norm(matrix: np.ndarray) -> float:
    """Return |A|, the largest singular value; for larger matrices from the largest eigenvalue of A^* A alone."""
    size = float(np.abs(matrix).max())
    if not np.isfinite(size):
        return float("inf")
    if size == 0 or len(matrix) < 32:
        return float(np.linalg.norm(matrix, 2))
    scaled = matrix / size
    return float(size * np.sqrt(_leading(scaled.conj().T @ scaled, eigvals_only=True)[0]))


def numerical_radius(A: np.ndarray) -> float:
    """Return the largest |x^* A x| over unit vectors.

    The largest eigenvalue of Re(e^(i phi) A) is computed in evenly spaced directions phi, and the best direction is
    refined: with its eigenvector x, the direction of x^* A x is a better one. At worst the result is 0.12 % too small,
    usually by less than 1e-9.
    """

    def real_part(phi: float) -> np.ndarray:
        rotated = np.exp(1j * phi) * A
        return (rotated + rotated.conj().T) / 2

    if np.iscomplexobj(A):
        directions = np.linspace(-np.pi, np.pi, 2 * DIRECTIONS, endpoint=False)
    else:
        directions = np.linspace(0, np.pi, DIRECTIONS + 1)
    phi = max(directions, key=lambda direction: float(_leading(real_part(direction), eigvals_only=True)[0]))
    best = 0.0
    for _ in range(100):
        (reach,), x = _leading(real_part(phi))
        if reach <= best * (1 + 1e-10):
            break
        best, phi = float(reach), -float(np.angle(np.vdot(x, A @ x)))
    return best


def _leading(hermitian: np.ndarray, *, eigvals_only: bool = False) -> Any:
    """Return the largest eigenvalue, in an array, and unless `eigvals_only` its eigenvector."""
    last = len(hermitian) - 1
    return scipy.linalg.eigh(hermitian, subset_by_index=[last, last], eigvals_only=eigvals_only, check_finite=False)
