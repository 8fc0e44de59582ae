"""Bilinear maps of matrices, which act on rows and columns separately."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import isqrt
from numbers import Number
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole, is_whole
from mnemoscope.cells.fast_path import is_unmodified

Shape = tuple[int, int]
"""Rows and columns of a matrix."""


def nearest_square(size: int) -> Shape:
    """Return the shape nearest to a square with `size` entries; a prime number gives a column.

    >>> nearest_square(225), nearest_square(8), nearest_square(7)
    ((15, 15), (4, 2), (7, 1))
    """
    check_whole(1, size=size)
    columns = next(number for number in range(isqrt(size), 0, -1) if size % number == 0)
    return size // columns, columns


def shape_of_size(size: Any, rows: Any, names: tuple[str, str]) -> Shape:
    """Return the shape with `size` entries and `rows` rows; None for the shape nearest to a square.

    Error messages refer to size and rows by `names`.

    >>> shape_of_size(24, None, ("hidden_size", "rows")), shape_of_size(24, 3, ("hidden_size", "rows"))
    ((6, 4), (3, 8))
    """
    check_whole(1, **{names[0]: size})
    if rows is None:
        return nearest_square(int(size))
    check_whole(1, **{names[1]: rows})
    if size % rows:
        raise ValueError(f"{names[0]} = {size} numbers do not fill {rows} rows; choose {names[1]} that divides it.")
    return int(rows), int(size // rows)


def checked_shape(shape: Any) -> Shape:
    """Return the shape as a pair of ints; raise unless both are positive whole numbers."""
    sizes = tuple(shape) if isinstance(shape, Sequence) else ()
    if len(sizes) != 2 or not all(is_whole(size, 1) for size in sizes):
        raise ValueError(
            f"A matrix has at least one row and one column, (rows, columns) in whole numbers, but its shape is "
            f"{shape!r}."
        )
    return int(sizes[0]), int(sizes[1])


class Bilinear(nn.Module):
    """`U^T X V + B` (Renanse et al., Eq 1), from (a0, a1) to (b0, b1) with b0 a0 + a1 b1 + b0 b1 parameters.

    On vectors of stacked columns it is the Kronecker product of V^T and U^T. At the start, the entries of the result
    have the variance of those of X. With `maps` there are several such maps, one for each gate of a cell, and results
    have one more dimension before the matrix.

    >>> layer = Bilinear((5, 4), (3, 2))
    >>> print(layer(torch.zeros(7, 5, 4)).shape, sum(weight.numel() for weight in layer.parameters()))
    torch.Size([7, 3, 2]) 29
    >>> Bilinear((5, 4), (3, 2), maps=4)(torch.zeros(7, 5, 4)).shape
    torch.Size([7, 4, 3, 2])
    """

    def __init__(self, shape_in: Shape, shape_out: Shape, bias: bool = True, maps: int | None = None) -> None:
        super().__init__()
        if maps is not None:
            check_whole(1, maps=maps)
        shape_in, shape_out = checked_shape(shape_in), checked_shape(shape_out)
        self.shape_in, self.shape_out, self.maps = shape_in, shape_out, maps
        several = () if maps is None else (maps,)
        self.U = nn.Parameter(torch.randn(*several, shape_in[0], shape_out[0]) * shape_in[0] ** -0.5)
        self.V = nn.Parameter(torch.randn(*several, shape_in[1], shape_out[1]) * shape_in[1] ** -0.5)
        self.bias = nn.Parameter(torch.zeros(*several, *shape_out)) if bias else None

    def forward(self, X: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*result new_rows new_columns"]:
        if X.shape[-2:] != self.shape_in:
            raise ValueError(
                f"This map takes matrices (..., {self.shape_in[0]}, {self.shape_in[1]}), but got {tuple(X.shape)}."
            )
        Y = self.U.mT @ (X if self.maps is None else X.unsqueeze(-3)) @ self.V
        return Y if self.bias is None else Y + self.bias

    def matrix(self) -> Float[Tensor, "outputs inputs"]:
        """Return the matrix of the map, without B, on matrices flattened row by row; several maps are concatenated."""
        return kronecker(self.U, self.V).flatten(0, -2)

    def extra_repr(self) -> str:
        several = "" if self.maps is None else f", maps={self.maps}"
        return f"{self.shape_in} -> {self.shape_out}, bias={self.bias is not None}{several}"


def kronecker(
    U: Float[Tensor, "*maps rows new_rows"], V: Float[Tensor, "*maps columns new_columns"]
) -> Float[Tensor, "*maps outputs inputs"]:
    """Return `U^T (x) V^T`, the matrix of `X -> U^T X V` on matrices flattened row by row."""
    return torch.einsum("...ab,...cd->...bdac", U, V).flatten(-4, -3).flatten(-2, -1)


class MatrixInputs(nn.Module):
    """`sum_i U_i^T X_i V_i + B` of matrices X_i that are flattened and concatenated in the input features.

    >>> MatrixInputs([(5, 5), (6, 6)], (3, 4))(torch.zeros(7, 25 + 36)).shape
    torch.Size([7, 3, 4])
    """

    def __init__(
        self, shapes_in: Sequence[Shape], shape_out: Shape, bias: bool = True, maps: int | None = None
    ) -> None:
        super().__init__()
        if not shapes_in:
            raise ValueError("A network needs at least one input matrix.")
        first, *others = shapes_in
        self.parts = nn.ModuleList([Bilinear(first, shape_out, bias, maps)])
        self.parts.extend(Bilinear(shape, shape_out, False, maps) for shape in others)
        self.sizes = [rows * columns for rows, columns in shapes_in]

    @property
    def is_linear(self) -> bool:
        """Whether `matrix` and `bias` describe the map: users may replace its parts by other maps."""
        return is_unmodified(self, MatrixInputs) and all(is_unmodified(part, Bilinear) for part in self.parts)

    @property
    def maps(self) -> list[Bilinear]:
        """The map of each input matrix; the first one has the bias."""
        return [part for part in self.parts if isinstance(part, Bilinear)]

    def forward(self, xs: Float[Tensor, "*batch features"]) -> Float[Tensor, "*result rows columns"]:
        parts = zip(self.maps, xs.split(self.sizes, dim=-1), strict=True)
        return reduce(torch.add, [part(x.unflatten(-1, part.shape_in)) for part, x in parts])

    def matrix(self) -> Float[Tensor, "outputs features"]:
        """Return the matrix of the map on the features, without B."""
        return torch.cat([part.matrix() for part in self.maps], dim=-1)

    def bias(self) -> Float[Tensor, " outputs"] | None:
        """Return B, flattened."""
        bias = self.maps[0].bias
        return None if bias is None else bias.flatten()


def as_shapes(shapes: Any) -> list[Shape]:
    """Return one shape or several as a list.

    >>> as_shapes((5, 4)), as_shapes([(5, 4), (6, 6)])
    ([(5, 4)], [(5, 4), (6, 6)])
    """
    kinds = {isinstance(item, Number) for item in shapes} if isinstance(shapes, Sequence) else {True, False}
    if len(kinds) > 1:
        raise ValueError(f"Either the shape of one matrix or a list of shapes is needed, but not {shapes!r}.")
    return [checked_shape(shapes)] if kinds == {True} else [checked_shape(pair) for pair in shapes]
