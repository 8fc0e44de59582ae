"""Linear networks whose Fisher memory is studied: feed-forward chains and random matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float


def feed_forward(alpha: float, beta: float, d: float, size: int) -> Float[Tensor, "size size"]:
    """Return `Theta` of Kerg, Eq 3.4.2: d on the diagonal, alpha below it, beta in the rest of the lower triangle.

    >>> feed_forward(1.0, 0.5, 0.25, 3).tolist()
    [[0.25, 0.0, 0.0], [1.0, 0.25, 0.0], [0.5, 1.0, 0.25]]
    """
    below = torch.full((size, size), beta, dtype=torch.float64).tril(-2)
    return below + torch.diag(torch.full((size - 1,), alpha, dtype=torch.float64), -1) + d * torch.eye(size).double()


def first_unit(size: int) -> Float[Tensor, " size"]:
    """Return the input weights of signals that enter the first unit only."""
    return torch.eye(size, dtype=torch.float64)[0]


def random_chain(a: float, strength: float, size: int, generator: torch.Generator) -> Float[Tensor, "size size"]:
    """Return a strictly triangular matrix: `sqrt(a)` on the sub-diagonal, normal numbers times `strength` below it."""
    below = strength * torch.randn(size, size, generator=generator, dtype=torch.float64)
    return feed_forward(a**0.5, 0.0, 0.0, size) + below.tril(-2)


def random_normal(size: int, radius: float, generator: torch.Generator) -> Float[Tensor, "size size"]:
    """Return a random real normal matrix.

    In a random orthogonal basis it rotates planes by uniform angles and scales them by moduli uniform in (0, radius).
    If the size is odd, the remaining direction is scaled by a number uniform in (-radius, radius).

    >>> A = random_normal(5, 0.9, torch.Generator().manual_seed(0))
    >>> torch.allclose(A @ A.mT, A.mT @ A), bool(torch.linalg.matrix_norm(A, 2) < 0.9)
    (True, True)
    """
    basis = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))[0]
    moduli = radius * torch.rand(size // 2, generator=generator, dtype=torch.float64)
    angles = 2 * torch.pi * torch.rand(size // 2, generator=generator, dtype=torch.float64)
    single = radius * (2 * torch.rand(size % 2, size % 2, generator=generator, dtype=torch.float64) - 1)
    rotations = torch.view_as_real(torch.polar(moduli, angles))  # (planes, cosine and sine)
    blocks = torch.stack([rotations * torch.tensor([1.0, -1.0]), rotations.flip(1)], dim=1)
    return basis @ torch.block_diag(*blocks, single) @ basis.mT


def random_general(size: int, radius: float, generator: torch.Generator) -> Float[Tensor, "size size"]:
    """Return a matrix of independent normal numbers with this spectral radius, which is far from normal."""
    A = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return radius * A / torch.linalg.eigvals(A).abs().max()


def random_source(size: int, generator: torch.Generator) -> Float[Tensor, "size size"]:
    """Return a random matrix W of norm 1."""
    W = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return W / W.norm()
