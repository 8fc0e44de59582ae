"""Products of a sparse matrix with vectors on a CPU, by the library that is fast on the machine.

With MKL, on x86, torch's sparse matrices are faster than scipy's. Without MKL, on ARM, torch has no fast sparse
product, and scipy's is used. The choice is a rule and not a measurement, so that a machine gives the same digits in
every run.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float


@runtime_checkable
class SparseMatrix(Protocol):
    """A sparse matrix W; products are new tensors unless `out` is given."""

    entries: int
    """Number of entries that are stored."""

    def times_vector(self, x: Float[Tensor, " columns"]) -> Float[Tensor, " rows"]:
        """Return `W x`."""
        ...

    def add_times_vector(self, u: Tensor, x: Tensor, out: Tensor) -> None:
        """Write `u + W x` into `out`."""
        ...

    def times_matrix(self, X: Float[Tensor, "columns batch"]) -> Float[Tensor, "rows batch"]:
        """Return `W X`."""
        ...


def block_diagonal(matrices: Sequence[Float[Tensor, "size size"]]) -> SparseMatrix:
    """Return one sparse matrix with these on its diagonal, in the form that is fast on this machine.

    >>> block_diagonal([torch.eye(2), 2 * torch.eye(2)]).times_vector(torch.ones(4)).tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    return (MKLMatrix if torch.backends.mkl.is_available() else ScipyMatrix)(*_rows_columns_values(matrices))


class MKLMatrix:
    """Torch's sparse matrix; MKL is twice as fast with its 32-bit indices."""

    def __init__(self, rows: Tensor, columns: Tensor, values: Tensor) -> None:
        size, self.entries = len(rows) - 1, len(values)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse (CSR tensor support is in beta|invariant checks)")
            self.matrix = torch.sparse_csr_tensor(rows, columns, values, size=(size, size), check_invariants=True)

    def times_vector(self, x: Tensor) -> Tensor:
        return torch.mv(self.matrix, x)

    def add_times_vector(self, u: Tensor, x: Tensor, out: Tensor) -> None:
        torch.addmv(u, self.matrix, x, out=out)

    def times_matrix(self, X: Tensor) -> Tensor:
        return self.matrix @ X


class ScipyMatrix:
    """scipy's sparse matrix."""

    def __init__(self, rows: Tensor, columns: Tensor, values: Tensor) -> None:
        from scipy.sparse import csr_array  # takes long to import

        size, self.entries = len(rows) - 1, len(values)
        self.matrix = csr_array((values.numpy(), columns.numpy(), rows.numpy()), shape=(size, size))

    def times_vector(self, x: Tensor) -> Tensor:
        return torch.from_numpy(self.matrix @ x.numpy())

    def add_times_vector(self, u: Tensor, x: Tensor, out: Tensor) -> None:
        np.add(self.matrix @ x.numpy(), u.numpy(), out=out.numpy())

    def times_matrix(self, X: Tensor) -> Tensor:
        return torch.from_numpy(self.matrix @ X.numpy())


def _rows_columns_values(matrices: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the compressed rows of a block-diagonal matrix: ends of the rows, columns and values."""
    size, rows, columns, values = matrices[0].shape[0], [matrices[0].new_zeros(1, dtype=torch.int32)], [], []
    entries = 0
    for number, W in enumerate(matrices):
        row, column = W.nonzero(as_tuple=True)
        rows.append((entries + torch.bincount(row, minlength=size).cumsum(0)).int())
        columns.append((column + number * size).int())
        values.append(W[row, column].detach())
        entries += row.numel()
    return torch.cat(rows), torch.cat(columns), torch.cat(values)
