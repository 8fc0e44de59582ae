"""The operators of the letters on the span of the class means, and how well they represent the group."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.base.groups import Group
from mnemoscope.lenses.tracking.characters import CharacterTable

SHARE = 0.999
"""Share of the variance of the class means that the span must hold."""
CLEAR = 0.1
"""Largest distance from whole numbers at which multiplicities are called clear."""


@dataclass(frozen=True)
class Representation:
    """Linear operators on the span of the differences between class means; the trivial part is not in it."""

    operators: Float[Tensor, "letters rank rank"]
    eigenvalues: Complex[Tensor, "letters rank"]
    relations: Float[Tensor, "letters order"]
    """`|rho(x) rho(g) - rho(x g)|`, the largest singular value, for every letter x and element g."""
    closure: Float[Tensor, "letters order"]
    """Distance of `F_x c_g`, the image of a class mean, from the class mean of x g, divided by the least distance
    between two class means."""
    multiplicities: Float[Tensor, " irreps"]
    """How often each irreducible representation occurs, from traces whose eigenvalues are scaled to modulus 1."""

    @property
    def clear(self) -> bool:
        """Whether the multiplicities are close to whole numbers."""
        return bool((self.multiplicities - self.multiplicities.round()).abs().max() <= CLEAR)


def represent(
    group: Group,
    table: CharacterTable,
    means: Float[Tensor, "order size"],
    matrices: Float[Tensor, "letters size size"],
    offsets: Float[Tensor, "letters size"],
) -> Representation:
    """Return the representation that affine maps make on class means."""
    centred = means - means.mean(0)
    _, sizes, directions = torch.linalg.svd(centred, full_matrices=False)
    shares = sizes.square().cumsum(0) / sizes.square().sum()
    rank = int((shares < SHARE).sum()) + 1
    basis = directions[:rank].T  # (size, rank)
    operators = basis.T @ matrices @ basis
    elements = _along_words(group, operators)
    products = torch.tensor([group.table[letter] for letter in group.letters])  # (letters, order)
    differences = operators.unsqueeze(1) @ elements - elements[products]
    images = torch.einsum("xde,ge->xgd", matrices, means) + offsets.unsqueeze(1)
    gaps = torch.linalg.vector_norm(images - means[products], dim=-1)
    distances = torch.cdist(means, means) + torch.diag(torch.full((group.order,), torch.inf, dtype=means.dtype))
    traces = torch.linalg.eigvals(elements)
    traces = (traces / traces.abs().clamp_min(torch.finfo(torch.float64).tiny)).sum(-1)
    return Representation(
        operators,
        torch.linalg.eigvals(operators),
        torch.linalg.matrix_norm(differences, 2),
        gaps / distances.min(),
        table.multiplicities(traces).real,
    )


def _along_words(group: Group, operators: Float[Tensor, "letters rank rank"]) -> Float[Tensor, "order rank rank"]:
    """Return the operator of each element: the product along a shortest word for it."""
    found: dict[int, Tensor] = {0: torch.eye(operators.shape[-1], dtype=operators.dtype)}
    new = [0]
    while new:
        reached = []
        for element in new:
            for letter, operator in zip(group.letters, operators, strict=True):
                target = group.table[letter][element]
                if target not in found:
                    found[target] = operator @ found[element]
                    reached.append(target)
        new = reached
    return torch.stack([found[element] for element in range(group.order)])
