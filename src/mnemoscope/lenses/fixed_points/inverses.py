"""Inverse Jacobians of the residual at the roots, which simplified Newton steps use.

Small matrices are inverted in batches. Of a large one on a CPU only LU factors in float32 are computed and kept, in a
quarter of the time and half of the memory of its inverse: a simplified Newton step converges all the same, since its
residual has the precision of the system. A matrix that is too ill-conditioned for float32 is inverted in full.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.linear_algebra import (
    index_of_factors,
    inverse_and_index,
    largest_column_sum,
    matrices_at_once,
    multiply,
    rounding_of_determinant,
)

FACTORISED = 512
"""From this size on, matrices on a CPU are factorised instead of inverted."""
LARGE = 128
"""From this size on, inverses are applied in a loop: to gather them would cost more than to use them."""
COLUMNS = 4
"""Number of vectors from which the norm of an inverse is estimated."""
ESTIMATES = 5
"""Upper limit of the improvements of this estimate."""

Product = Callable[[Tensor, Tensor], Tensor]
"""Multiplies vectors (batch, size) by stored inverses; the second argument is a mask of the needed products."""


@dataclass(frozen=True)
class Inverse:
    """The inverse of one large matrix, as LU factors in float32 or as a matrix."""

    matrix: Float[Tensor, "size size"]
    pivots: Int[Tensor, " size"] | None = None
    """Row swaps, if the matrix holds LU factors."""

    def multiply(self, vectors: Float[Tensor, "batch size"], transposed: bool = False) -> Float[Tensor, "batch size"]:
        """Multiply each vector by the inverse, or by its transpose."""
        if self.pivots is None:
            return vectors @ (self.matrix if transposed else self.matrix.mT)
        scale = vectors.abs().amax(1, keepdim=True).clamp_min(torch.finfo(vectors.dtype).tiny)
        right = (vectors / scale).float().mT  # any magnitude fits into float32
        solution = torch.linalg.lu_solve(self.matrix, self.pivots, right, adjoint=transposed)
        return solution.mT.to(vectors.dtype) * scale


class Inverses(ABC):
    """Several inverses; the two subclasses hold them as one tensor or each by itself."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def select(self, rows: Sequence[int]) -> Inverses:
        """Return some of the inverses."""

    @abstractmethod
    def append(self, more: Any) -> None:
        """Add other inverses of the same subclass."""

    @abstractmethod
    def multiply(self, vectors: Float[Tensor, "batch size"], transposed: bool = False) -> Float[Tensor, "batch size"]:
        """Multiply each vector by its inverse, or by the transpose."""

    @abstractmethod
    def combine_rows(self, weights: Float[Tensor, "rows size"]) -> Float[Tensor, "batch rows size"]:
        """Return the product of `weights` with each inverse."""

    @abstractmethod
    def products(self, positions: Int[Tensor, " batch"]) -> Product:
        """Return a function that multiplies vectors by the inverses at these positions.

        Vectors with the same inverse share one product.
        """


class SmallInverses(Inverses):
    """Inverses of small matrices, or of matrices on a GPU, as one tensor."""

    def __init__(self, matrices: Float[Tensor, "batch size size"]) -> None:
        self.matrices = self._buffer = matrices

    def __len__(self) -> int:
        return len(self.matrices)

    def select(self, rows: Sequence[int]) -> SmallInverses:
        return SmallInverses(self.matrices[list(rows)])

    def append(self, more: SmallInverses) -> None:
        """Add inverses, in a buffer that grows rarely: a copy of all for each new one would take longer."""
        used, added = len(self.matrices), len(more)
        if used + added > len(self._buffer):
            self._buffer = more.matrices.new_empty(max(used + added, 2 * used), *more.matrices.shape[1:])
            self._buffer[:used] = self.matrices
        self.matrices = self._buffer[: used + added]
        self.matrices[used:] = more.matrices

    def multiply(self, vectors: Float[Tensor, "batch size"], transposed: bool = False) -> Float[Tensor, "batch size"]:
        return multiply(self.matrices.mT if transposed else self.matrices, vectors)

    def combine_rows(self, weights: Float[Tensor, "rows size"]) -> Float[Tensor, "batch rows size"]:
        return weights @ self.matrices

    def products(self, positions: Int[Tensor, " batch"]) -> Product:
        used, group, counts = torch.unique(positions, return_inverse=True, return_counts=True)
        if self.matrices.shape[1] >= LARGE:
            return _grouped_products([Inverse(self.matrices[slot]) for slot in used.tolist()], group)
        order = group.argsort(stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts)[group[order]]
        chosen = self.matrices if len(used) == len(self.matrices) else self.matrices[used]
        chosen, width = chosen.mT, int(counts.max())

        def apply_inverses(vectors: Tensor, needed: Tensor) -> Tensor:
            grouped = vectors.new_zeros(len(used), width, vectors.shape[1])
            grouped[group, rank] = vectors
            return torch.bmm(grouped, chosen)[group, rank]

        return apply_inverses


class LargeInverses(Inverses):
    """Inverses of large matrices, each by itself."""

    def __init__(self, inverses: Sequence[Inverse]) -> None:
        self.inverses = list(inverses)

    def __len__(self) -> int:
        return len(self.inverses)

    def select(self, rows: Sequence[int]) -> LargeInverses:
        return LargeInverses([self.inverses[row] for row in rows])

    def append(self, more: LargeInverses) -> None:
        self.inverses += more.inverses

    def multiply(self, vectors: Float[Tensor, "batch size"], transposed: bool = False) -> Float[Tensor, "batch size"]:
        pairs = zip(self.inverses, vectors.split(1), strict=True)
        return torch.cat([inverse.multiply(vector, transposed) for inverse, vector in pairs])

    def combine_rows(self, weights: Float[Tensor, "rows size"]) -> Float[Tensor, "batch rows size"]:
        return torch.stack([inverse.multiply(weights, transposed=True) for inverse in self.inverses])

    def products(self, positions: Int[Tensor, " batch"]) -> Product:
        used, group = torch.unique(positions, return_inverse=True)
        return _grouped_products([self.inverses[slot] for slot in used.tolist()], group)


@dataclass(frozen=True)
class Linearised:
    """The residual around nearly converged states, to first order."""

    inverse: Inverses
    index: Int[Tensor, " batch"]
    """The index sign det(-G) of each Jacobian G; 0 where rounding may change it."""
    terms: Float[Tensor, "batch size"]
    """The largest terms that are summed in each number of the residual, at least 1."""
    jacobian: Float[Tensor, "batch size size"] | None
    """G, unless it is large."""

    def select(self, rows: Sequence[int]) -> Linearised:
        """Return some of the states."""
        jacobian = None if self.jacobian is None else self.jacobian[list(rows)]
        return Linearised(self.inverse.select(rows), self.index[list(rows)], self.terms[list(rows)], jacobian)

    def changes(
        self, dynamics: Dynamics, states: Float[Tensor, "batch size"], shift: Tensor, directions: Sequence[Tensor]
    ) -> list[Float[Tensor, "batch size"]]:
        """Return how G times each direction changes when the states are shifted forwards or backwards."""
        both = torch.cat([states + shift, states - shift])
        if self.jacobian is not None:
            sides = dynamics.residual_jacobian(both).chunk(2)
            return [multiply(side - self.jacobian, direction) for side in sides for direction in directions]
        here, there = (dynamics.residual_products(around)[0] for around in (states, both))
        pairs = [(here(direction), there(torch.cat([direction, direction])).chunk(2)) for direction in directions]
        return [side - product for product, sides in pairs for side in sides]


def no_inverses(dynamics: Dynamics) -> Inverses:
    """Return an empty store for the inverses of a system."""
    if _factorised(dynamics):
        return LargeInverses([])
    return SmallInverses(dynamics.origin.new_zeros(0, dynamics.size, dynamics.size))


def linearised_at_once(dynamics: Dynamics) -> int:
    """Return how many states to linearise together: on a CPU about 128 MB of factors, or 8 MB of small matrices."""
    if _factorised(dynamics):
        return max(1, 2**25 // dynamics.size**2)
    return matrices_at_once(dynamics.size, dynamics.device)


def linearise(dynamics: Dynamics, states: Float[Tensor, "batch size"]) -> Linearised:
    """Invert the Jacobian of the residual at each state; a large one is formed only for a moment."""
    if _factorised(dynamics):
        inverses, indices, terms = zip(*(_factorise(dynamics, state) for state in states.split(1)), strict=True)
        return Linearised(LargeInverses(inverses), torch.stack(indices), torch.cat(terms), None)
    G = dynamics.residual_jacobian(states)
    inverse, index = inverse_and_index(G)
    return Linearised(SmallInverses(inverse), index, _terms(G, states), G)


def inverse_norm(inverse: Inverse) -> Tensor:
    """Estimate the largest column sum of an inverse from products with it, without its entries.

    The block method of Higham & Tisseur (2000), with unit vectors after the first products. It never exceeds the norm,
    and rarely misses it.
    """
    size = len(inverse.matrix)
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randint(0, 2, (COLUMNS, size), generator=generator).double() * 2 - 1
    vectors[0] = 1
    vectors, best = vectors / size, torch.zeros((), dtype=torch.float64)
    for _ in range(ESTIMATES):
        products = inverse.multiply(vectors)
        estimate = products.abs().sum(1).max()
        if not estimate > best:  # also for NaN
            break
        best = estimate
        slopes = inverse.multiply(torch.where(products >= 0, 1.0, -1.0), transposed=True).abs().amax(0)
        vectors = torch.zeros_like(vectors).scatter_(1, slopes.topk(COLUMNS).indices[:, None], 1)
    return best


def _factorised(dynamics: Dynamics) -> bool:
    return dynamics.size >= FACTORISED and dynamics.device.type == "cpu"


def _factorise(dynamics: Dynamics, state: Float[Tensor, "1 size"]) -> tuple[Inverse, Tensor, Tensor]:
    """Return the inverse, the index and the terms at one state."""
    G = dynamics.residual_jacobian(state)
    LU, pivots, failed = torch.linalg.lu_factor_ex(G[0].float())
    inverse = Inverse(LU, pivots)
    terms = _terms(G, state)
    if int(failed) == 0:
        condition = largest_column_sum(G)[0] * inverse_norm(inverse)
        if rounding_of_determinant(LU.dtype, dynamics.size) * condition < 1:  # False for NaN
            return inverse, index_of_factors(LU, pivots), terms
    exact, index = inverse_and_index(G)
    return Inverse(exact[0]), index[0], terms


def _terms(G: Float[Tensor, "batch size size"], states: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size"]:
    return torch.maximum(states.abs(), multiply(G.abs(), states.abs())).clamp_min(1)


def _grouped_products(inverses: Sequence[Inverse], group: Int[Tensor, " batch"]) -> Product:
    """Return a function that multiplies the vectors of each group by its inverse."""

    def apply_inverses(vectors: Tensor, needed: Tensor) -> Tensor:
        product = torch.zeros_like(vectors)
        for number, inverse in enumerate(inverses):
            rows = ((group == number) & needed).nonzero()[:, 0]
            if rows.numel():
                product[rows] = inverse.multiply(vectors[rows])
        return product

    return apply_inverses
