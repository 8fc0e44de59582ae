"""Linear maps by their structure: a matrix, or a product of two small ones that acts on matrices.

States are flat, matrices row by row, so that `X -> U^T X V` is the Kronecker product of `U^T` and `V^T`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import inf

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float

AT_A_TIME = 32
"""Powers of A on a vector that are taken as one product: as many as cost no more than one, memory being slow."""


class Map(ABC):
    """`x -> A x` on states of `size` numbers."""

    parts: tuple[Tensor, ...]
    """The matrices it is made of."""
    size: int

    @abstractmethod
    def __call__(self, x: Float[Tensor, "size columns"]) -> Float[Tensor, "size columns"]:
        """`A x`, column by column."""

    @abstractmethod
    def then(self, other: Map) -> Map:
        """First this one, then another of the same structure."""

    @abstractmethod
    def dense(self) -> Float[Tensor, "size size"]:
        """A itself."""

    @abstractmethod
    def radius(self) -> float:
        """Spectral radius."""


class Dense(Map):
    """A matrix."""

    def __init__(self, A: Float[Tensor, "size size"]) -> None:
        self.A, self.parts, self.size = A, (A,), A.shape[0]

    def __call__(self, x: Float[Tensor, "size columns"]) -> Float[Tensor, "size columns"]:
        return self.A @ x

    def then(self, other: Map) -> Dense:
        return Dense(other(self.A))

    def dense(self) -> Float[Tensor, "size size"]:
        return self.A

    def radius(self) -> float:
        return spectral_radius(self.A)


class Kronecker(Map):
    """`X -> L X R^T`, matrices as flat vectors, row by row: N^3 instead of N^4 multiplications."""

    def __init__(self, left: Float[Tensor, "rows rows"], right: Float[Tensor, "columns columns"]) -> None:
        self.left, self.right, self.parts = left, right, (left, right)
        self.size = left.shape[0] * right.shape[0]

    def __call__(self, x: Float[Tensor, "size columns"]) -> Float[Tensor, "size columns"]:
        rows, columns = self.left.shape[0], self.right.shape[0]
        half = (self.left @ x.reshape(rows, -1)).view(rows, columns, -1)
        return (self.right @ half).view(x.shape)

    def then(self, other: Map) -> Kronecker:
        assert isinstance(other, Kronecker)
        return Kronecker(other.left @ self.left, other.right @ self.right)

    def balanced(self) -> Kronecker:
        """The same map by factors of one spectral radius: high powers of unequal ones leave the range of floats."""
        left, right = spectral_radius(self.left), spectral_radius(self.right)
        if not 0 < left < inf or not 0 < right < inf:
            return self
        factor = (right / left) ** 0.5
        return Kronecker(factor * self.left, self.right / factor)

    def dense(self) -> Float[Tensor, "size size"]:
        return torch.kron(self.left.contiguous(), self.right.contiguous())

    def radius(self) -> float:
        return spectral_radius(self.left) * spectral_radius(self.right)


def spectral_radius(A: Float[Tensor, "size size"]) -> float:
    """Largest modulus of an eigenvalue; 0 where A is triangular with a diagonal of zeros, whatever rounding says."""
    A = A.detach()
    if not torch.isfinite(A).all():  # which would take down LAPACK, and the process with it
        raise OverflowError("A matrix has left the range of float64.")
    if not A.triu(1).any() or not A.tril(-1).any():
        return float(A.diagonal().abs().max())
    return float(torch.linalg.eigvals(A).abs().max())


def powers(A: Map, w: Float[Tensor, " size"]) -> Iterator[Float[Tensor, " size"]]:
    """`w, A w, A^2 w, ...` without end; after the first, many at a time, by a power of A that leads past them."""
    known, power = w[:, None], A
    yield w
    while True:
        later = power(known)
        yield from later.unbind(1)
        if known.shape[1] < AT_A_TIME:
            known, power = torch.cat([known, later], dim=1), power.then(power)
        else:
            known = later
