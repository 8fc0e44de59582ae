"""The matrix of low rank, optionally with a fixed random part."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.connectivity.connectivity import Connectivity, KnownSpectrum


class LowRank(Connectivity):
    """`V = M N^T / size + random` with M and N of shape (size, rank) (Mastrogiuseppe & Ostojic 2018).

    The columns of M are the directions in which the network responds, those of N the directions that it selects. There
    are 2 size rank parameters; the random part is constant.

    Args:
        size: rows and columns.
        rank: columns R of M and N. They start ~ N(0, 1), independent of each other unless there is an `overlap`, as
            in the code of Dubreuil et al. 2022.
        gain: g; the entries of the random part are N(0, g^2 / size). 0 for no random part.
        overlap: the multiple of M that N starts with, `N = overlap M + N(0, 1)`, so that the nonzero eigenvalues of V
            start near it. A network of leaky units forgets its latent variables within its time constant at 0, and
            keeps them at 1 while they remain small, so that gradients reach across a delay.

    >>> torch.linalg.matrix_rank(LowRank(20, rank=2)()).item()
    2

    """

    random: Tensor | None

    def __init__(self, size: int, rank: int = 1, gain: float = 0.0, overlap: float = 0.0) -> None:
        super().__init__(size)
        if not 1 <= rank <= size:
            raise ValueError(f"The rank must be at least 1 and at most the size {size}, but is {rank}.")
        if not 0 <= gain < inf:
            raise ValueError(f"gain must be 0 or positive and finite, but is {gain}.")
        if not isfinite(overlap):
            raise ValueError(f"overlap must be finite, but is {overlap}.")
        self.rank = rank
        self.left = nn.Parameter(torch.randn(size, rank))
        self.right = nn.Parameter(torch.randn(size, rank) + overlap * self.left.detach())
        self.register_buffer("random", torch.randn(size, size) * (gain / size**0.5) if gain else None)

    @classmethod
    def from_factors(
        cls,
        left: Float[Tensor, "size rank"],
        right: Float[Tensor, "size rank"],
        random: Float[Tensor, "size size"] | None = None,
    ) -> LowRank:
        """Return `left right^T / size + random`, with copies of the given factors.

        >>> m = torch.tensor([[1.0], [2.0]])
        >>> LowRank.from_factors(m, 2 * m)().tolist()
        [[1.0, 2.0], [2.0, 4.0]]
        """
        with torch.device("meta"):  # draws no random numbers for the factors that are replaced below
            matrix = cls(*left.shape)
        matrix.left, matrix.right = (nn.Parameter(factor.detach().clone()) for factor in (left, right))
        matrix.random = None if random is None else random.detach().clone()
        return matrix

    @classmethod
    def from_matrix(cls, matrix: Float[Tensor, "size size"], rank: int) -> LowRank:
        """Return the nearest matrix of a rank: the leading singular values, divided evenly between M and N.

        >>> V = torch.diag(torch.tensor([3.0, 2.0, 1.0]))
        >>> LowRank.from_matrix(V, 2)().diagonal().round(decimals=4).tolist()
        [3.0, 2.0, 0.0]
        """
        U, s, Vh = torch.linalg.svd(matrix.detach())
        root = (s[:rank] * len(matrix)).sqrt()
        return cls.from_factors(U[:, :rank] * root, Vh[:rank].mT * root)

    def forward(self) -> Float[Tensor, "size size"]:
        product = self.left @ self.right.mT / self.size
        return product if self.random is None else product + self.random

    def transposed_product(self) -> Callable[[Tensor], Tensor]:
        left_T, right, random = self.left.mT / self.size, self.right, self.random
        if random is None:
            return lambda h: (h @ right) @ left_T
        return lambda h: (h @ right) @ left_T + h @ random.mT

    def overlaps(self) -> Float[Tensor, "rank rank"]:
        """Return `N^T M / size`, whose eigenvalues are the nonzero ones of V if there is no random part."""
        return self.right.mT @ self.left / self.size

    def spectrum(self) -> KnownSpectrum:
        if self.random is not None:
            return KnownSpectrum()
        zeros = self.left.new_zeros(self.size - self.rank)
        R_left, R_right = (torch.linalg.qr(factor).R for factor in (self.left, self.right))
        stretches = torch.linalg.svdvals(R_left @ R_right.mT / self.size)
        return KnownSpectrum(torch.cat([torch.linalg.eigvals(self.overlaps()), zeros]), torch.cat([stretches, zeros]))

    def extra_repr(self) -> str:
        return f"{self.size}, rank={self.rank}" + (", random part" if self.random is not None else "")
