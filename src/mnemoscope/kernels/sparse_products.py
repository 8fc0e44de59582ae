"""Products of a sparse matrix with vectors on a CPU, by the library that is fast on the machine.

With MKL, on x86, torch's sparse matrices are faster than scipy's for products with matrices, and for those with vectors
in float32 if the rows are long. Everything else is multiplied by the functions inside scipy's products: so are all
products on ARM, where torch has no fast sparse product. scipy's functions are called directly, since its matrices take
10 to 20 us for each call. The choice is a rule and not a measurement, so that a machine gives the same digits in every
run.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.stepping import as_array

LONG_FOR_MKL = 50
"""Entries per row above which MKL's products with vectors are faster in float32 (1,000 units, Intel Skylake)."""


@runtime_checkable
class SparseMatrix(Protocol):
    """A sparse matrix W; products are new tensors unless `out` is given."""

    entries: int
    """Number of entries that are stored."""

    def times_vector(self, x: Float[Tensor, " columns"]) -> Float[Tensor, " rows"]:
        """Return `W x`."""
        ...

    def add_times_vector(self, u: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
        """Write `u + W x` into `out`, which shares no memory with u or x; all are contiguous and of the dtype of W."""
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
    """Torch's sparse matrix, and scipy's for vectors where that is faster; MKL is fast with 32-bit indices only."""

    def __init__(self, rows: Tensor, columns: Tensor, values: Tensor) -> None:
        size, self.entries = len(rows) - 1, len(values)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse (CSR tensor support is in beta|invariant checks)")
            self.matrix = torch.sparse_csr_tensor(rows, columns, values, size=(size, size), check_invariants=True)
        long = self.entries > LONG_FOR_MKL * size
        self._vectors = None if long and values.dtype == torch.float32 else ScipyMatrix(rows, columns, values)

    def times_vector(self, x: Tensor) -> Tensor:
        return torch.mv(self.matrix, x) if self._vectors is None else self._vectors.times_vector(x)

    def add_times_vector(self, u: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
        if self._vectors is None:
            torch.addmv(torch.from_numpy(u), self.matrix, torch.from_numpy(x), out=torch.from_numpy(out))
        else:
            self._vectors.add_times_vector(u, x, out)

    def times_matrix(self, X: Tensor) -> Tensor:
        return self.matrix @ X


class ScipyMatrix:
    """scipy's sparse matrix."""

    def __init__(self, rows: Tensor, columns: Tensor, values: Tensor) -> None:
        from scipy.sparse import _sparsetools, csr_array  # takes long to import

        size, self.entries = len(rows) - 1, len(values)
        self.matrix = csr_array((values.numpy(), columns.numpy(), rows.numpy()), shape=(size, size))
        self._add_product = _sparsetools.csr_matvec
        self._stored = (size, size, self.matrix.indptr, self.matrix.indices, self.matrix.data)

    def times_vector(self, x: Tensor) -> Tensor:
        product = torch.zeros_like(x, memory_format=torch.contiguous_format)
        self._check(x.numel(), product.numel())
        self._add_product(*self._stored, as_array(x.contiguous()), as_array(product))
        return product

    def add_times_vector(self, u: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
        out[...] = u
        self._check(x.size, out.size)
        self._add_product(*self._stored, x, out)

    def _check(self, *sizes: int) -> None:
        """Raise on vectors of another size: scipy's function would read and write beyond them."""
        if sizes != (self._stored[0],) * len(sizes):
            raise ValueError(f"The vectors must have {self._stored[0]} numbers, but have {sizes}.")

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
