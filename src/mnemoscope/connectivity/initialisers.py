"""Initialisers of an unconstrained recurrent matrix, by name."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float


def uniform(matrix: Float[Tensor, "n n"]) -> None:
    """Fill with U(-1/sqrt N, 1/sqrt N), as torch.nn.RNN does."""
    bound = matrix.shape[0] ** -0.5
    nn.init.uniform_(matrix, -bound, bound)


def glorot(matrix: Float[Tensor, "n n"]) -> None:
    """Fill with normal numbers of variance 1/N (Glorot & Bengio 2010)."""
    nn.init.xavier_normal_(matrix)


def orthogonal(matrix: Float[Tensor, "n n"]) -> None:
    """Fill with a random orthogonal matrix, uniformly distributed (Saxe et al. 2014)."""
    nn.init.orthogonal_(matrix)


def identity(matrix: Float[Tensor, "n n"]) -> None:
    """Fill with the identity (Le et al. 2015)."""
    nn.init.eye_(matrix)


def henaff(matrix: Float[Tensor, "n n"]) -> None:
    """Fill with rotations of pairs of units by angles ~ U(-pi, pi) (Henaff et al. 2016)."""
    _rotations(matrix, -pi, pi)


def cayley(matrix: Float[Tensor, "n n"]) -> None:
    """Fill with rotations of pairs of units by angles ~ U(0, pi / 2) (Helfrich et al. 2018)."""
    _rotations(matrix, 0, pi / 2)


def _rotations(matrix: Float[Tensor, "n n"], low: float, high: float) -> None:
    """Fill with rotations of pairs of units; the last unit of an odd number is left unchanged."""
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
"""Each fills a square matrix in place."""


def initialise(matrix: Float[Tensor, "n n"], name: str) -> None:
    """Fill `matrix` in place with the named initialiser."""
    if name not in INITIALISERS:
        raise ValueError(f"Unknown initialiser {name!r}; choose one of {', '.join(INITIALISERS)}.")
    with torch.no_grad():
        INITIALISERS[name](matrix)
