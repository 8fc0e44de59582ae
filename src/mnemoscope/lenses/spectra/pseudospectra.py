"""Pseudospectra: where the eigenvalues of a matrix could lie, were it disturbed a little."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.spectra.resolvent import smallest_singular_values
from mnemoscope.lenses.storage import load_result, save_result

CHUNK = 4096
"""Points that are looked at together; they need some 50 size x CHUNK bytes."""


@dataclass(frozen=True)
class Pseudospectrum:
    """sigma_min(z - A) at z = x + i y. Where it is below epsilon, z is an eigenvalue of some A + E with |E| < epsilon.

    (Trefethen & Embree 2005, section 2.) Of a normal matrix it is the distance to the nearest eigenvalue.
    """

    x: Float[Tensor, " width"]
    y: Float[Tensor, " height"]
    sigma: Float[Tensor, "height width"]

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `Pseudospectrum.load` reads it back."""
        save_result(path, "Pseudospectrum", {"x": self.x, "y": self.y, "sigma": self.sigma}, {})

    @classmethod
    def load(cls, path: str | Path) -> Pseudospectrum:
        """Read what `save` wrote."""
        return cls(**load_result(path, "Pseudospectrum", "a pseudospectrum")[0])


def pseudospectrum(
    S: np.ndarray, resolution: int, box: tuple[float, float, float, float], real: bool
) -> Pseudospectrum:
    """The grid of a matrix in upper triangular form S; of a real matrix, the mirrored half is not computed twice."""
    left, right, low, high = box
    if resolution < 2:
        raise ValueError(f"A grid needs at least 2 points along each side, but resolution is {resolution}.")
    if not (all(map(isfinite, box)) and left < right and low < high):
        raise ValueError(f"The box must be finite (left, right, low, high) left < right and low < high, but is {box}.")
    x, y = np.linspace(left, right, resolution), np.linspace(low, high, resolution)
    mirrored = real and low == -high
    rows = y[resolution // 2 :] if mirrored else y
    z = (x + 1j * rows[:, None]).ravel()
    parts = [smallest_singular_values(S, z[at : at + CHUNK]) for at in range(0, len(z), CHUNK)]
    sigma = np.concatenate(parts).reshape(len(rows), resolution)
    if mirrored:
        sigma = np.concatenate([sigma[::-1][: resolution // 2], sigma])
    return Pseudospectrum(*map(torch.from_numpy, (x, y, np.ascontiguousarray(sigma))))
