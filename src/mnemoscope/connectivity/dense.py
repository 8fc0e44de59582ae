"""The unconstrained recurrent matrix."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.connectivity.connectivity import Connectivity
from mnemoscope.connectivity.initialisers import initialise


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
        """Return `soft_orthogonality |V^T V - I|_F^2`."""
        if not self.soft_orthogonality:
            return None
        gram = self.matrix.mH @ self.matrix
        return self.soft_orthogonality * (gram - torch.eye(self.size).to(gram)).abs().square().sum()
