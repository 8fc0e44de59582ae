"""The unconstrained recurrent matrix and its initialisers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.connectivity.connectivity import Connectivity
from mnemoscope.connectivity.skew import ANGLES


class Dense(Connectivity):
    """An unconstrained matrix; N^2 parameters.

    Args:
        size: rows and columns N.
        init: one of `INITIALISERS`: "identity" makes an IRNN (Le et al. 2015), "orthogonal" an RNN-orth (Henaff et al.
            2016), "glorot" the RNN of Kerg's thesis.
        soft_orthogonality: weight of the penalty `|V^T V - I|_F^2` (Vorontsov et al. 2017, Eq 5).

    >>> Dense(3, init="identity")().diagonal().tolist()
    [1.0, 1.0, 1.0]

    """

    unconstrained = True

    def __init__(self, size: int, init: str = "uniform", soft_orthogonality: float = 0.0) -> None:
        super().__init__(size)
        self.soft_orthogonality = soft_orthogonality
        self.matrix = nn.Parameter(torch.empty(size, size))
        initialise(self.matrix, init)

    @classmethod
    def from_matrix(cls, matrix: Inexact[Tensor, "size size"]) -> Dense:
        """Return a Dense that holds the given matrix; a Parameter is shared, not copied."""
        with torch.device("meta"):  # draws no random numbers for the matrix that is replaced below
            dense = cls(matrix.shape[0])
        dense.matrix = matrix if isinstance(matrix, nn.Parameter) else nn.Parameter(matrix)
        dense.complex = matrix.is_complex()
        return dense

    def forward(self) -> Inexact[Tensor, "size size"]:
        return self.matrix

    def penalty(self) -> Float[Tensor, ""] | None:
        if not self.soft_orthogonality:
            return None
        gram = self.matrix.mH @ self.matrix
        return self.soft_orthogonality * (gram - torch.eye(self.size).to(gram)).abs().square().sum()


def initialise(matrix: Float[Tensor, "n n"], name: str) -> None:
    """Fill `matrix` in place with the named initialiser."""
    if name not in INITIALISERS:
        raise ValueError(f"Unknown initialiser {name!r}; choose one of {', '.join(INITIALISERS)}.")
    with torch.no_grad():
        INITIALISERS[name](matrix)


def _uniform(matrix: Float[Tensor, "n n"]) -> None:
    bound = matrix.shape[0] ** -0.5
    nn.init.uniform_(matrix, -bound, bound)


def _rotations(matrix: Float[Tensor, "n n"], angles: tuple[float, float]) -> None:
    """Fill with rotations of pairs of units; the last unit of an odd number is left unchanged."""
    first = torch.arange(0, matrix.shape[0] - 1, 2)
    drawn = torch.empty(len(first), dtype=matrix.dtype).uniform_(*angles)
    nn.init.eye_(matrix)
    matrix[first, first] = matrix[first + 1, first + 1] = drawn.cos()
    matrix[first + 1, first] = drawn.sin()
    matrix[first, first + 1] = -drawn.sin()


INITIALISERS: dict[str, Callable[[Tensor], object]] = {
    "uniform": _uniform,  # U(-1/sqrt N, 1/sqrt N), as in torch.nn.RNN
    "glorot": nn.init.xavier_normal_,  # normal numbers of variance 1/N (Glorot & Bengio 2010)
    "orthogonal": nn.init.orthogonal_,  # uniformly distributed orthogonal matrices (Saxe et al. 2014)
    "identity": nn.init.eye_,  # Le et al. 2015
    "henaff": partial(_rotations, angles=ANGLES["henaff"]),  # angles ~ U(-pi, pi) (Henaff et al. 2016)
    "cayley": partial(_rotations, angles=ANGLES["cayley"]),  # angles ~ U(0, pi / 2) (Helfrich et al. 2018)
}
"""Each fills a square matrix in place."""
