"""Initial recurrent matrices, by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mnemoscope.shapes import Float


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


INITIALISERS: dict[str, Callable[[Tensor], None]] = {
    "uniform": uniform,
    "glorot": glorot,
    "orthogonal": orthogonal,
    "identity": identity,
}


def initialise(matrix: Float[Tensor, "n n"], how: str) -> None:
    """Fill `matrix` in place by the named rule."""
    if how not in INITIALISERS:
        raise ValueError(f"Unknown initialiser {how!r}; choose one of {', '.join(INITIALISERS)}.")
    with torch.no_grad():
        INITIALISERS[how](matrix)
