"""Initial recurrent matrices, by name."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float


def uniform(matrix: Float[Tensor, "n n"]) -> None:
    """U(-1/sqrt N, 1/sqrt N): what torch.nn.RNN does."""
    bound = matrix.shape[0] ** -0.5
    nn.init.uniform_(matrix, -bound, bound)


def glorot(matrix: Float[Tensor, "n n"]) -> None:
    """Normal with variance 1/N (Glorot & Bengio 2010)."""
    nn.init.xavier_normal_(matrix)


def orthogonal(matrix: Float[Tensor, "n n"]) -> None:
    """Uniform over the orthogonal matrices (Saxe et al. 2014)."""
    nn.init.orthogonal_(matrix)


def identity(matrix: Float[Tensor, "n n"]) -> None:
    """The identity (Le et al. 2015)."""
    nn.init.eye_(matrix)


def henaff(matrix: Float[Tensor, "n n"]) -> None:
    """Rotations of pairs of units by angles ~ U(-pi, pi) (Henaff et al. 2016)."""
    _rotations(matrix, -pi, pi)


def cayley(matrix: Float[Tensor, "n n"]) -> None:
    """Rotations of pairs of units by angles ~ U(0, pi / 2) (Helfrich et al. 2018)."""
    _rotations(matrix, 0, pi / 2)


def _rotations(matrix: Float[Tensor, "n n"], low: float, high: float) -> None:
    """Where the size is odd, the last unit stays as it is."""
    first = torch.arange(0, matrix.shape[0] - 1, 2)
    angles = torch.empty(len(first), dtype=matrix.dtype).uniform_(low, high)
    nn.init.eye_(matrix)
    matrix[first, first] = matrix[first + 1, first + 1] = angles.cos()
    matrix[first + 1, first] = angles.sin()
    matrix[first, first + 1] = -angles.sin()


INITIALISERS: dict[str, Callable[[Tensor], None]] = {
    "uniform": uniform,
    "glorot": glorot,
    "orthogonal": orthogonal,
    "identity": identity,
    "henaff": henaff,
    "cayley": cayley,
}


def initialise(matrix: Float[Tensor, "n n"], how: str) -> None:
    """Fill `matrix` in place by the named rule."""
    if how not in INITIALISERS:
        raise ValueError(f"Unknown initialiser {how!r}; choose one of {', '.join(INITIALISERS)}.")
    with torch.no_grad():
        INITIALISERS[how](matrix)
