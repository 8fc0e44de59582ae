"""A matrix by its singular value decomposition, with singular values within a margin of 1."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.connectivity.connectivity import Connectivity, KnownSpectrum
from mnemoscope.connectivity.parametrisations import orthogonal


class SVD(Connectivity):
    """`V = P diag(s) Q^T` with orthogonal P and Q and spectral margin m (Vorontsov et al. 2017, Eq 7-8).

    The singular values `s = 1 + 2 m (sigmoid(p) - 1/2)` lie between 1 - m and 1 + m. There are N^2 parameters if P and
    Q have N (N - 1) / 2 each.

    Args:
        size: rows and columns N.
        margin: spectral margin m; with 0, V is orthogonal and p is not learned.
        basis: parametrisation of P and Q, one of `ORTHOGONAL`.
        init: initialiser of P and Q.

    >>> torch.linalg.svdvals(SVD(6, margin=0.1)()).round(decimals=4).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]

    """

    def __init__(self, size: int, margin: float = 0.1, basis: str = "exponential", init: str = "random") -> None:
        super().__init__(size)
        if not 0 <= margin < 1:
            raise ValueError(f"The margin must be at least 0 and below 1, but is {margin}.")
        self.margin = margin
        self.left, self.right = orthogonal(basis, size, init), orthogonal(basis, size, init)
        self.stretch = nn.Parameter(torch.zeros(size), requires_grad=margin > 0)

    def forward(self) -> Float[Tensor, "n n"]:
        return (self.left() * self.singular_values()) @ self.right().mT

    def singular_values(self) -> Float[Tensor, " n"]:
        return 1 + 2 * self.margin * (self.stretch.sigmoid() - 0.5)

    def spectrum(self) -> KnownSpectrum:
        return KnownSpectrum(singular_values=self.singular_values())

    def orthogonal_parameters(self) -> Iterator[nn.Parameter]:
        yield from self.left.orthogonal_parameters()
        yield from self.right.orthogonal_parameters()
