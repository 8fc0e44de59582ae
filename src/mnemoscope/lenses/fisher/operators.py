"""Linear maps by their structure: a dense matrix, or a Kronecker product of two small ones.

States are flat, matrices row by row, so that `X -> U^T X V` is the Kronecker product of `U^T` and `V^T`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float

BLOCK = 32
"""Vectors `A^k w` computed by one product. Up to this many cost no more than one, because memory access dominates."""


@dataclass(frozen=True, eq=False)
class Dense:
    """The linear map `x -> A x` on states of `size` numbers, given by its matrix."""

    A: Float[Tensor, "size size"]

    @property
    def size(self) -> int:
        """Number of entries of a state."""
        return self.A.shape[0]

    def __call__(self, x: Float[Tensor, "size columns"]) -> Float[Tensor, "size columns"]:
        """Return `A x`, column by column."""
        return self.A @ x

    def then(self, other: Map) -> Dense:
        """Return the map that applies this one first and then another one of the same structure."""
        return Dense(other(self.A))

    def dense(self) -> Float[Tensor, "size size"]:
        """Return the matrix A."""
        return self.A

    def radius(self) -> float:
        """Return the spectral radius."""
        return spectral_radius(self.A)


@dataclass(frozen=True, eq=False)
class Kronecker:
    """The map `X -> L X R^T` on matrices, flattened row by row: N^3 instead of N^4 multiplications."""

    left: Float[Tensor, "rows rows"]
    right: Float[Tensor, "columns columns"]

    @property
    def size(self) -> int:
        return self.left.shape[0] * self.right.shape[0]

    def __call__(self, x: Float[Tensor, "size columns"]) -> Float[Tensor, "size columns"]:
        rows, columns = self.left.shape[0], self.right.shape[0]
        half = (self.left @ x.reshape(rows, -1)).view(rows, columns, -1)
        return (self.right @ half).view(x.shape)

    def then(self, other: Map) -> Kronecker:
        assert isinstance(other, Kronecker)
        return Kronecker(other.left @ self.left, other.right @ self.right)

    def balanced(self) -> Kronecker:
        """Return the same map with factors of equal spectral radius, whose high powers stay in the range of floats."""
        left, right = spectral_radius(self.left), spectral_radius(self.right)
        if not 0 < left < inf or not 0 < right < inf:
            return self
        factor = (right / left) ** 0.5
        return Kronecker(factor * self.left, self.right / factor)

    def dense(self) -> Float[Tensor, "size size"]:
        return torch.kron(self.left.contiguous(), self.right.contiguous())

    def radius(self) -> float:
        return spectral_radius(self.left) * spectral_radius(self.right)


Map = Dense | Kronecker


def spectral_radius(A: Float[Tensor, "size size"]) -> float:
    """Return the largest modulus of an eigenvalue; for a triangular matrix exactly, from its diagonal."""
    A = A.detach()
    if not torch.isfinite(A).all():  # LAPACK would abort the process
        raise OverflowError("A matrix has left the range of float64.")
    if not A.triu(1).any() or not A.tril(-1).any():
        return float(A.diagonal().abs().max())
    return float(torch.linalg.eigvals(A).abs().max())


def powers(A: Map, w: Float[Tensor, " size"]) -> Iterator[Float[Tensor, " size"]]:
    """Yield `w, A w, A^2 w, ...` without end, computed in blocks by a high power of A."""
    block, power = w[:, None], A
    yield w
    while True:
        later = power(block)
        yield from later.unbind(1)
        if block.shape[1] < BLOCK:
            block, power = torch.cat([block, later], dim=1), power.then(power)
        else:
            block = later
