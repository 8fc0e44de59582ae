"""A linear map of matrices that acts on rows and columns apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.shapes import Float

Shape = tuple[int, int]
"""Rows and columns of a matrix."""


class Bilinear(nn.Module):
    """`U^T X V + B` (Renanse et al., Eq 1): from (a0, a1) to (b0, b1) with b0 a0 + a1 b1 + b0 b1 numbers.

    Its matrix on vectors, with columns stacked, is the Kronecker product of V^T and U^T. Entries of a product keep the
    size of those of X in the beginning.

    >>> layer = Bilinear((5, 4), (3, 2))
    >>> print(layer(torch.zeros(7, 5, 4)).shape, sum(weight.numel() for weight in layer.parameters()))
    torch.Size([7, 3, 2]) 29
    """

    def __init__(self, shape_in: Shape, shape_out: Shape, bias: bool = True) -> None:
        super().__init__()
        for shape in (shape_in, shape_out):
            if len(shape) != 2 or min(shape) < 1:
                raise ValueError(f"A matrix has at least one row and one column, but its shape is {tuple(shape)}.")
        self.shape_in, self.shape_out = tuple(shape_in), tuple(shape_out)
        self.U = nn.Parameter(torch.randn(shape_in[0], shape_out[0]) * shape_in[0] ** -0.5)
        self.V = nn.Parameter(torch.randn(shape_in[1], shape_out[1]) * shape_in[1] ** -0.5)
        self.bias = nn.Parameter(torch.zeros(*shape_out)) if bias else None

    def forward(self, X: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch new_rows new_columns"]:
        Y = self.U.mT @ X @ self.V
        return Y if self.bias is None else Y + self.bias

    def extra_repr(self) -> str:
        return f"{self.shape_in} -> {self.shape_out}, bias={self.bias is not None}"
