"""The irreducible characters of a finite group, from its multiplication table."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Int
from mnemoscope.base.groups import Group


@dataclass(frozen=True)
class CharacterTable:
    """The traces of each irreducible representation."""

    classes: Int[Tensor, " order"]
    """Number of the conjugacy class of each element."""
    characters: Complex[Tensor, "irreps order"]
    """Trace of each element, one row for each representation, by dimension; the first is the trivial one."""

    @property
    def dimensions(self) -> Int[Tensor, " irreps"]:
        """Dimension of each representation."""
        return self.characters[:, 0].real.round().long()

    def kernel(self, irrep: int) -> int:
        """Return how many elements a representation maps to the identity."""
        return int(((self.characters[irrep] - self.characters[irrep, 0]).abs() < 1e-6).sum())

    def multiplicities(self, traces: Complex[Tensor, " order"]) -> Complex[Tensor, " irreps"]:
        """Return how often each irreducible representation occurs in the one with these traces."""
        return (self.characters.conj() @ traces.to(self.characters)) / len(self.classes)


def character_table(group: Group) -> CharacterTable:
    """Return the character table, by the method of Burnside.

    The sums of the elements of conjugacy classes multiply with whole coefficients, `C_i C_j = sum_k a_ijk C_k`. The
    matrices `a_i` commute, and their common eigenvectors are the characters, up to scale. They are those of one random
    combination of the matrices.

    >>> from mnemoscope.base.groups import named_group
    >>> character_table(named_group("A5")).dimensions.tolist()
    [1, 3, 3, 4, 5]
    """
    table = torch.tensor(group.table)
    inverses = torch.tensor(group.inverses)
    elements = torch.arange(group.order)
    conjugates = table[table, inverses.unsqueeze(1)]  # row g, column h: g h g^-1
    _, classes = conjugates.min(0).values.unique(return_inverse=True)
    number = int(classes.max()) + 1
    sizes = torch.bincount(classes).to(torch.float64)
    representatives = torch.tensor([int((classes == k).nonzero()[0]) for k in range(number)])
    # a[i, j, k]: number of x in class i and y in class j with x y equal to the representative of class k
    a = torch.zeros(number, number, number, dtype=torch.float64)
    for k, z in enumerate(representatives.tolist()):
        others = table[inverses, z]  # y = x^-1 z
        a.index_put_(
            (classes[elements], classes[others], torch.full_like(elements, k)),
            torch.ones(group.order, dtype=torch.float64),
            accumulate=True,
        )
    generator = torch.Generator().manual_seed(0)
    combination = torch.einsum("i,ijk->jk", torch.rand(number, generator=generator, dtype=torch.float64), a)
    # w_j = sizes_j chi_j / chi_1 solves sum_k a_ijk w_k = w_i w_j: a right eigenvector of each a_i
    vectors = torch.linalg.eig(combination)[1]
    w = vectors / vectors[0]  # class 0 is the identity
    ratios = w.T / sizes
    dimensions = (group.order / (ratios.abs().square() * sizes).sum(1)).sqrt()
    characters = dimensions.unsqueeze(1) * ratios
    trivial = (characters - 1).abs().amax(1)
    order = sorted(range(number), key=lambda row: (round(float(dimensions[row])), float(trivial[row])))
    return CharacterTable(classes, characters[order][:, classes])
