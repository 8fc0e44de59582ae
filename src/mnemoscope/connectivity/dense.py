"""The unconstrained recurrent matrix."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.connectivity.initialisers import initialise
from mnemoscope.shapes import Float


class Connectivity(nn.Module):
    """A module whose `forward()` yields the recurrent matrix `V` of shape (size, size), formed once per sequence."""

    size: int

    def forward(self) -> Float[Tensor, "size size"]:
        raise NotImplementedError(f"{type(self).__name__} must define forward().")


class Dense(Connectivity):
    """A free matrix.

    >>> Dense(3, init="identity")().diagonal().tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, size: int, init: str = "uniform") -> None:
        super().__init__()
        if size < 1:
            raise ValueError(f"A recurrent matrix needs at least one row, but size is {size}.")
        self.size = size
        self.matrix = nn.Parameter(torch.empty(size, size))
        initialise(self.matrix, init)

    @classmethod
    def holding(cls, matrix: Float[Tensor, "size size"]) -> Dense:
        """A Dense around a given matrix; a Parameter is shared, not copied."""
        with torch.device("meta"):  # no numbers are drawn for a matrix that is replaced at once
            dense = cls(matrix.shape[0])
        dense.matrix = matrix if isinstance(matrix, nn.Parameter) else nn.Parameter(matrix)
        return dense

    def forward(self) -> Float[Tensor, "size size"]:
        return self.matrix
