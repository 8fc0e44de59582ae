"""The Elman cell whose state is a matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box, Cell, Step
from mnemoscope.cells.elman import Elman
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.intervals import function_range
from mnemoscope.cells.matrix.bilinear import MatrixInputs, Shape, as_shapes, checked_shape, kronecker
from mnemoscope.cells.matrix.vector_form import vector_fast_path
from mnemoscope.cells.nonlinearities import Nonlinearity, make_nonlinearity
from mnemoscope.connectivity import Connectivity, Dense


class Kronecker(Connectivity):
    """`U^T (x) V^T`, which maps H, flattened row by row, to `U^T H V`; U and V are any real connectivities.

    >>> Kronecker(Dense(3), Dense(2))().shape
    torch.Size([6, 6])
    """

    def __init__(self, rows: Connectivity, columns: Connectivity) -> None:
        super().__init__(rows.size * columns.size)
        if rows.complex or columns.complex:
            raise ValueError("The states of matrix networks are real, but U or V is complex; use orthogonal ones.")
        self.rows, self.columns = rows, columns
        self.unconstrained = rows.unconstrained and columns.unconstrained

    def forward(self) -> Float[Tensor, "size size"]:
        return kronecker(*self.factors())

    def factors(self) -> tuple[Float[Tensor, "rows rows"], Float[Tensor, "columns columns"]]:
        """Return U and V."""
        return self.rows(), self.columns()


class MatrixRNN(Cell):
    """`H' = phi(U1^T X V1 + U2^T H V2 + B)` (Do et al. 2017; Renanse et al. 2021, Eq 6). States are matrices.

    Inputs and outputs are flattened row by row, (batch, features). Several input matrices are concatenated in the
    features, and each has separate U1 and V1. From (p, p) to (q, q) there are 3 q^2 + 2 p q parameters.

    Args:
        input_shape: rows and columns of X, or a list of shapes of several matrices.
        state_shape: rows and columns of H.
        nonlinearity: as for `Elman`; modReLU has a bias for every entry.
        rows: the connectivity that yields U2 (rows, rows); an unconstrained matrix by default.
        columns: the connectivity that yields V2 (columns, columns); an unconstrained matrix by default.

    >>> cell = MatrixRNN((5, 5), (15, 15))
    >>> cell(torch.zeros(4, 25), cell.initial_state(4)).shape
    torch.Size([4, 15, 15])
    >>> sum(weight.numel() for weight in cell.parameters()) == 3 * 15**2 + 2 * 5 * 15
    True

    """

    def __init__(
        self,
        input_shape: Shape | Sequence[Shape],
        state_shape: Shape,
        nonlinearity: str | Nonlinearity | Callable[[Tensor], Tensor] = "tanh",
        rows: Connectivity | None = None,
        columns: Connectivity | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.input_shapes, self.state_shape = as_shapes(input_shape), checked_shape(state_shape)
        self.input_size = sum(map(prod, self.input_shapes))
        self.hidden_size = prod(self.state_shape)
        rows = Dense(self.state_shape[0], "glorot") if rows is None else rows
        columns = Dense(self.state_shape[1], "glorot") if columns is None else columns
        if (rows.size, columns.size) != self.state_shape:
            raise ValueError(
                f"A state of {self.state_shape[0]} x {self.state_shape[1]} needs U2 and V2 of as many rows, but they "
                f"have {rows.size} and {columns.size}."
            )
        self.drive = MatrixInputs(self.input_shapes, self.state_shape, bias)
        self.connectivity = Kronecker(rows, columns)
        self.phi = make_nonlinearity(nonlinearity, self.hidden_size)

    def initial_state(self, batch: int) -> Float[Tensor, "batch rows columns"]:
        return self.drive.maps[0].U.new_zeros(batch, *self.state_shape)

    def output(self, state: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch features"]:
        """Return the entries, row by row."""
        return state.flatten(-2)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        U, V = self.connectivity.factors()
        return self.drive(xs), lambda u, H: self.activate(U.mT @ H @ V + u)

    def activate(self, Z: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch rows columns"]:
        """Return phi of every entry; it gets flat vectors, since it may have parameters for every unit."""
        return self.phi(Z.flatten(-2)).unflatten(-1, self.state_shape)

    def as_elman(self) -> Elman:
        """Return the equivalent Elman cell with N = rows times columns units, for lenses that need one.

        Its matrix is a Kronecker product; it shares the parameters.
        """
        drive = _FlatDrive(self.drive)
        return Elman.from_parts(drive, self.connectivity, self.phi, sum(self.drive.sizes), self.hidden_size)

    def fast_path(self, xs: Tensor, state: Tensor, mask: Tensor | None) -> FastPath | NoFastPath:
        """Return the fast path of the equivalent Elman cell, where it is faster."""
        if not self.drive.is_linear:
            return NoFastPath("its drive is not the one it was made with")
        return vector_fast_path(self.as_elman, self.hidden_size, xs, state, mask)

    def pre_activation(self, x: Tensor, state: Tensor) -> Float[Tensor, "batch rows columns"]:
        """Return the argument of phi."""
        U, V = self.connectivity.factors()
        return U.mT @ state @ V + self.drive(x)

    def jacobian(self, x: Tensor, state: Tensor) -> Float[Tensor, "batch size size"]:
        """Return `diag(phi'(Z)) (U2^T (x) V2^T)` with Z the pre-activations, row by row."""
        slope = self.phi.derivative(self.pre_activation(x, state).flatten(1))
        return slope.unsqueeze(-1) * self.connectivity()

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        return function_range(self.phi, self.initial_state(1).flatten())

    def intermediates(self, x: Tensor, state: Tensor) -> dict[str, Tensor]:
        return {"pre": self.pre_activation(x, state)}

    def frozen(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> MatrixRNN:
        """Return a constant copy, as every cell does; U2 and V2 are formed here, once."""
        with torch.no_grad():
            factors = [factor.detach().clone().to(dtype=dtype, device=device) for factor in self.connectivity.factors()]
        cell = super().frozen(dtype, device)
        assert isinstance(cell, MatrixRNN)
        cell.connectivity = Kronecker(*map(Dense.from_matrix, factors)).requires_grad_(False).eval()
        return cell


class _FlatDrive(nn.Module):
    """`MatrixInputs` as a linear map of the features."""

    def __init__(self, inputs: MatrixInputs) -> None:
        super().__init__()
        self.inputs = inputs

    def forward(self, xs: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch size"]:
        return linear(xs, self.inputs.matrix(), self.inputs.bias())
