"""Subspaces of the state that hold a variable, and random ones of the same dimension."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.lenses.variables.basis import MemoryBasis

ZERO = 1e-9
"""Singular values below this share of the largest are 0."""

Directions = Tensor | MemoryBasis
"""Directions in columns, which are projected on orthogonally, or a basis with its duals."""


@dataclass(frozen=True)
class Subspace:
    """The directions of a variable, with the duals that read it: P = vectors @ duals is a projection."""

    vectors: Float[Tensor, "size directions"]
    duals: Float[Tensor, "directions size"]

    @classmethod
    def spanned(cls, directions: Float[Tensor, "size directions"]) -> Subspace:
        """Return the span of directions with the orthogonal projection on it."""
        U, singular, _ = torch.linalg.svd(directions, full_matrices=False)
        kept = U[:, singular > ZERO * singular.max()]
        return cls(kept, kept.mT)

    @classmethod
    def given(cls, directions: Directions, size: int) -> Subspace:
        """Return the subspace of directions that a user gave."""
        if isinstance(directions, MemoryBasis):
            found = cls(directions.vectors.double(), directions.duals.double())
        else:
            columns = torch.as_tensor(directions).detach().double().cpu()
            columns = columns[:, None] if columns.dim() == 1 else columns
            if columns.dim() != 2 or not torch.isfinite(columns).all() or not bool(columns.any()):
                raise ValueError(
                    f"directions must be a finite matrix (size, directions) that is not 0, but has the shape "
                    f"{tuple(columns.shape)}."
                )
            found = cls.spanned(columns)
        if len(found.vectors) != size:
            raise ValueError(
                f"The directions have {len(found.vectors)} numbers, but the part of the state on which they act has "
                f"{size}: choose its tensor by name=..., or pass directions of the whole state."
            )
        return found

    @property
    def dimension(self) -> int:
        """Number of directions."""
        return self.vectors.shape[1]

    def project(self, changes: Float[Tensor, "batch size"]) -> Float[Tensor, "batch size"]:
        """Return the part of changes within the subspace."""
        return changes @ self.duals.mT @ self.vectors.mT


def class_means(
    states: Float[Tensor, "batch size"], labels: Int[Tensor, " batch"], classes: int
) -> Float[Tensor, "classes size"]:
    """Return the mean state of each class."""
    return torch.stack([states[labels == number].mean(0) for number in range(classes)])


def other_directions(states: Float[Tensor, "batch size"], subspace: Subspace) -> Float[Tensor, "size rank"]:
    """Return an orthonormal basis of the directions in which states differ and that are orthogonal to a subspace."""
    differences = states - states.mean(0)
    largest = torch.linalg.matrix_norm(differences, 2)
    tested = torch.linalg.qr(subspace.vectors)[0]
    U, singular, _ = torch.linalg.svd((differences - differences @ tested @ tested.mT).mT, full_matrices=False)
    return U[:, singular > ZERO * largest]


def random_subspace(span: Float[Tensor, "size rank"], dimension: int, generator: Generator) -> Subspace:
    """Return a subspace of a span, drawn uniformly."""
    drawn = torch.randn(span.shape[1], dimension, dtype=span.dtype, generator=generator)
    return Subspace.spanned(span @ drawn)


def nearest_mean_accuracy(
    subspace: Subspace,
    states: Float[Tensor, "batch size"],
    labels: Int[Tensor, " batch"],
    means: Float[Tensor, "classes size"],
) -> Float[Tensor, " batch"]:
    """Return 1 for each state whose nearest class mean, within the subspace, is that of its label, else 0."""
    read = subspace.duals.mT
    return (torch.cdist(states @ read, means @ read).argmin(1) == labels).double()
