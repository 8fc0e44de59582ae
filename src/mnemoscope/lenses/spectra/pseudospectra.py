"""Pseudospectra: where the eigenvalues of a slightly perturbed matrix can lie."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.spectra.resolvent import smallest_singular_values

CHUNK = 4096
"""Number of points that are computed together; they need about 50 size x CHUNK bytes."""

Box = tuple[float, float, float, float]
"""A rectangle of the complex plane: least Re, largest Re, least Im, largest Im."""


@dataclass(frozen=True, repr=False)
class Pseudospectrum(Result):
    """sigma_min(z - A) at z = x + i y. Where it is below epsilon, z is an eigenvalue of some A + E with |E| < epsilon.

    (Trefethen & Embree 2005, section 2.) For a normal matrix it is the distance to the nearest eigenvalue.

    >>> import mnemoscope as ms
    >>> print(ms.spectrum(torch.diag(torch.tensor([0.5, -0.5]))).pseudospectrum(5, (-1.0, 1.0, -1.0, 1.0)).summary())
    sigma_min(z - A) at 5 x 5 points with Re z from -1 to 1 and Im z from -1 to 1: from 0 at z = -0.5+0i to 1.118. \
A perturbation of norm 0.1 can move an eigenvalue to 8.0% of the points, one of norm 0.01 to 8.0%.
    """

    noun: ClassVar[str] = "a pseudospectrum"
    drawn_by: ClassVar[str] = "draw_pseudospectrum"

    x: Float[Tensor, " width"]
    """Real parts of the grid points."""
    y: Float[Tensor, " height"]
    """Imaginary parts of the grid points."""
    sigma: Float[Tensor, "height width"]
    """Smallest singular value of z - A."""

    def summary(self) -> str:
        """Return the range of sigma_min, and how far two small perturbations can move an eigenvalue, in sentences."""
        row, column = divmod(int(self.sigma.argmin()), len(self.x))
        place = f"{float(self.x[column]):.3g}{float(self.y[row]):+.3g}i"
        box = [f"{float(value):.3g}" for value in (self.x[0], self.x[-1], self.y[0], self.y[-1])]
        shares = [f"{float((self.sigma < epsilon).double().mean()):.1%}" for epsilon in (0.1, 0.01)]
        return (
            f"sigma_min(z - A) at {len(self.x)} x {len(self.y)} points with Re z from {box[0]} to {box[1]} and Im z "
            f"from {box[2]} to {box[3]}: from {float(self.sigma.min()):.4g} at z = {place} to "
            f"{float(self.sigma.max()):.4g}. A perturbation of norm 0.1 can move an eigenvalue to {shares[0]} of the "
            f"points, one of norm 0.01 to {shares[1]}."
        )


def pseudospectrum(S: np.ndarray, resolution: int, box: Box, real: bool) -> Pseudospectrum:
    """Compute the grid for a matrix in upper triangular form S; for a real matrix only one half, which is mirrored."""
    left, right, low, high = box
    if resolution < 2:
        raise ValueError(f"A grid needs at least 2 points along each side, but resolution is {resolution}.")
    if not (all(map(isfinite, box)) and left < right and low < high):
        raise ValueError(
            f"The box must be finite, (left, right, low, high) with left < right and low < high, but is {box}."
        )
    x, y = np.linspace(left, right, resolution), np.linspace(low, high, resolution)
    mirrored = real and low == -high
    rows = y[resolution // 2 :] if mirrored else y
    z = (x + 1j * rows[:, None]).ravel()
    parts = [smallest_singular_values(S, z[start : start + CHUNK]) for start in range(0, len(z), CHUNK)]
    sigma = np.concatenate(parts).reshape(len(rows), resolution)
    if mirrored:
        sigma = np.concatenate([sigma[::-1][: resolution // 2], sigma])
    return Pseudospectrum(*map(torch.from_numpy, (x, y, np.ascontiguousarray(sigma))))


def box_around(eigenvalues: Tensor, continuous: bool) -> Box:
    """Return a box around the eigenvalues and, for a map, the unit circle, with a margin of 30 %."""
    if not continuous:
        reach = 1.3 * max(1.0, float(eigenvalues.abs().max()))
        return -reach, reach, -reach, reach
    low, high = float(eigenvalues.real.min()), max(0.0, float(eigenvalues.real.max()))
    side = float(eigenvalues.imag.abs().max())
    margin = 0.3 * max(high - low, 2 * side, 1e-3)
    return low - margin, high + margin, -side - margin, side + margin
