"""Memory bases: the directions of a state that hold variables, and the duals that read them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float

DEPENDENT = 1e-10
"""Columns count as dependent if their smallest singular value is below this share of the largest."""


@dataclass(frozen=True)
class MemoryBasis:
    """N subspaces of kappa directions each; the first holds the oldest variable (Karuvally et al. 2023, 5, 7).

    The rows of `duals` read what the columns of `vectors` hold: `duals @ vectors = I` if the columns are independent,
    and a projection if some variables repeat others (compose copy at rest has s (s + 1) / 2 free bits in s^2 places).

    >>> basis = MemoryBasis.from_vectors(torch.eye(6, dtype=torch.float64)[:, :4], variables=2)
    >>> state = basis.write(torch.zeros(1, 6, dtype=torch.float64), 1, torch.tensor([3.0, 4.0]).double())
    >>> basis.read(state)[0].tolist()
    [[0.0, 0.0], [3.0, 4.0]]
    """

    vectors: Float[Tensor, "units memories"]
    """Psi: |psi_mu> in columns."""
    duals: Float[Tensor, "memories units"]
    """Psi*: <psi^mu| in rows."""
    variables: int
    """Number of variables, N."""

    def __post_init__(self) -> None:
        memories = self.vectors.shape[1]
        if self.duals.shape != self.vectors.mT.shape:
            raise ValueError(
                f"There must be a dual for every vector, but their shapes are {tuple(self.duals.shape)} and "
                f"{tuple(self.vectors.shape)}."
            )
        if self.variables < 1 or memories % self.variables or not memories:
            raise ValueError(f"{memories} directions cannot be divided evenly among {self.variables} variables.")

    @classmethod
    def from_vectors(cls, Xi: Float[Tensor, "units memories"], variables: int) -> MemoryBasis:
        """Return the basis of the memories in the columns of Xi; the duals are the rows of its pseudo-inverse."""
        Xi = torch.as_tensor(Xi).detach().to(torch.float64)
        if Xi.dim() != 2 or not torch.isfinite(Xi).all():
            raise ValueError(f"Xi must be a finite matrix (units, memories), but its shape is {tuple(Xi.shape)}.")
        units, memories = Xi.shape
        if not memories:
            raise ValueError(f"There must be at least one memory, a column of Xi, but its shape is {tuple(Xi.shape)}.")
        if memories > units:
            raise ValueError(
                f"{memories} memories in {units} units are dependent, so they have no duals: pass at most {units}."
            )
        singular = torch.linalg.svdvals(Xi)
        if float(singular[-1]) <= DEPENDENT * float(singular[0]):
            raise ValueError(
                f"The {memories} memories are dependent (singular values from {float(singular[0]):.3g} down to "
                f"{float(singular[-1]):.3g}), so they have no duals: omit those that are combinations of others."
            )
        return cls(Xi, torch.linalg.pinv(Xi), variables)

    @property
    def size(self) -> int:
        """Directions of each subspace, kappa."""
        return self.vectors.shape[1] // self.variables

    @property
    def units(self) -> int:
        """Numbers in a state."""
        return self.vectors.shape[0]

    def block(self, variable: int) -> Float[Tensor, "units size"]:
        """Return Psi_j, the directions that hold a variable; 0 is the oldest, N - 1 (or -1) the newest."""
        return self.vectors[:, self._slice(variable)]

    def dual(self, variable: int) -> Float[Tensor, "size units"]:
        """Return Psi_j*, the duals that read a variable."""
        return self.duals[self._slice(variable)]

    def read(self, states: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch variables size"]:
        """Return all variables that states hold."""
        return (states @ self.duals.mT).unflatten(-1, (self.variables, self.size))

    def write(
        self, states: Float[Tensor, "*#batch units"], variable: int, values: Float[Tensor, "*#batch size"]
    ) -> Float[Tensor, "... units"]:
        """Return the states with one variable replaced; the others keep their values if the columns are independent."""
        change = values - states @ self.dual(variable).mT
        return states + change @ self.block(variable).mT

    def embed(self, held: Float[Tensor, "*batch variables size"]) -> Float[Tensor, "*batch units"]:
        """Return the states within the memory space that hold these variables."""
        return held.flatten(-2) @ self.vectors.mT

    def projection(self) -> Float[Tensor, "units units"]:
        """Return the projection onto the memory space along the null space of the duals."""
        return self.vectors @ self.duals

    def _slice(self, variable: int) -> slice:
        if not -self.variables <= variable < self.variables:
            raise IndexError(f"There are {self.variables} variables, numbered from 0, but {variable} was asked for.")
        first = variable % self.variables * self.size
        return slice(first, first + self.size)
