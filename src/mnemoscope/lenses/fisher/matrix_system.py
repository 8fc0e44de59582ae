"""Linear networks whose state is a matrix, with or without a queue of past states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fisher.operators import Dense, Kronecker, Map

Noise = float | Float[Tensor, "size size"]
"""A variance or a covariance."""


@dataclass(frozen=True)
class MatrixSystem:
    """The network `X(n) = U^T X(n-1) V + sum_t alpha_t X(n-1-t) + W s(n) + Z(n)` (Renanse, Eq 5, 34 and 35).

    The noise Z has independent columns of covariance `eps1 I` and rows of `eps2 I`, so that its entries have variance
    `eps1 eps2`. If eps1 or eps2 is a matrix, it is the covariance over the rows' or the columns' index. With `alpha`
    the state includes the queue, (X(n), ..., X(n-p)).

    >>> system = MatrixSystem(0.5 * torch.eye(3), 0.5 * torch.eye(4), torch.ones(3, 4))
    >>> system.size, system.shape
    (12, (3, 4))
    """

    U: Tensor
    """(rows, rows)"""
    V: Tensor
    """(columns, columns)"""
    W: Tensor
    """(rows, columns)"""
    eps1: float | Float[Tensor, "rows rows"] = 1.0
    eps2: float | Float[Tensor, "columns columns"] = 1.0
    alpha: Sequence[float] | float | Tensor = ()
    """Weights of the queue's slots, the newest first."""

    def __post_init__(self) -> None:
        for name in ("U", "V", "W"):
            matrix = torch.as_tensor(getattr(self, name))
            if matrix.is_complex():
                raise ValueError(f"Matrix networks are real, but {name} is complex.")
            matrix = matrix.to(torch.float64).clone()  # the caller may change theirs
            if matrix.dim() != 2 or 0 in matrix.shape or not torch.isfinite(matrix).all():
                raise ValueError(f"{name} must be a finite matrix, but has the shape {tuple(matrix.shape)}.")
            object.__setattr__(self, name, matrix)
        rows, columns = self.shape
        if self.U.shape != (rows, rows) or self.V.shape != (columns, columns):
            raise ValueError(
                f"W is {rows} x {columns}, so that U must be {rows} x {rows} and V {columns} x {columns}, but they are "
                f"{tuple(self.U.shape)} and {tuple(self.V.shape)}."
            )
        object.__setattr__(self, "eps1", _covariance(self.eps1, rows, "eps1"))
        object.__setattr__(self, "eps2", _covariance(self.eps2, columns, "eps2"))
        if not 0 < float(self.W.detach().square().sum()) < inf:
            raise ValueError("W must not be 0, nor so large that float64 cannot hold its square: signals enter by it.")
        alpha = torch.as_tensor(self.alpha, dtype=torch.float64).clone()
        alpha = alpha[None] if alpha.dim() == 0 else alpha
        if alpha.dim() != 1 or not torch.isfinite(alpha).all():
            raise ValueError(f"alpha must be a finite weight for every slot of the queue, but is {alpha.tolist()}.")
        object.__setattr__(self, "alpha", alpha)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of X."""
        return self.W.shape[0], self.W.shape[1]

    @property
    def slots(self) -> int:
        """Number of past states in the queue, p."""
        return len(self.weights)

    @property
    def weights(self) -> Float[Tensor, " slots"]:
        """Weights of the queue's slots: `alpha` as a tensor."""
        assert isinstance(self.alpha, Tensor)
        return self.alpha

    @property
    def size(self) -> int:
        """Number of entries of the state, (p + 1) N^2."""
        return (self.slots + 1) * self.W.numel()

    @property
    def white(self) -> bool:
        """Whether all entries have independent noise of one variance."""
        return all(torch.equal(Q, Q[0, 0] * torch.eye(len(Q), dtype=Q.dtype)) for Q in self.covariances)

    @property
    def differentiable(self) -> bool:
        """Whether any part requires gradients."""
        return any(part.requires_grad for part in (self.U, self.V, self.W, self.weights, *self.covariances))

    @property
    def covariances(self) -> tuple[Tensor, Tensor]:
        """Covariances of the noise over the rows' and over the columns' index."""
        assert isinstance(self.eps1, Tensor)
        assert isinstance(self.eps2, Tensor)
        return self.eps1, self.eps2

    def map(self) -> Map:
        """Return one step on the flat state: a Kronecker product, or with a queue the companion matrix."""
        step = Kronecker(self.U.mT, self.V.mT).balanced()
        if not self.slots:
            return step
        n = self.W.numel()
        A = torch.zeros(self.size, self.size, dtype=self.U.dtype)
        A[:n, :n] = step.dense()
        for slot, weight in enumerate(self.weights, 1):
            A[:n, slot * n : (slot + 1) * n] = weight * torch.eye(n, dtype=A.dtype)
        A[n:, :-n] = torch.eye(self.slots * n, dtype=A.dtype)
        return Dense(A)

    def source(self) -> Float[Tensor, " size"]:
        """Return W as a flat state; signals enter only the newest matrix."""
        flat = self.W.flatten()
        return torch.cat([flat, flat.new_zeros(self.slots * len(flat))])

    def noise_factor(self) -> Float[Tensor, "size sources"]:
        """Return L with `L L^T` the noise covariance of the flat state; noise enters only the newest matrix."""
        rows, columns = (torch.linalg.cholesky(covariance) for covariance in self.covariances)
        L = torch.kron(rows, columns)
        return torch.cat([L, L.new_zeros(self.slots * len(L), len(L))])


def _covariance(given: Noise, size: int, name: str) -> Float[Tensor, "size size"]:
    matrix = torch.as_tensor(given, dtype=torch.float64)
    matrix = matrix * torch.eye(size, dtype=torch.float64) if matrix.dim() == 0 else matrix
    if matrix.shape != (size, size) or not is_symmetric(matrix):
        raise ValueError(f"{name} must be a variance or a symmetric {size} x {size} matrix.")
    matrix = (matrix + matrix.mT) / 2
    if torch.linalg.cholesky_ex(matrix)[1].item():
        raise ValueError(f"{name} must be positive (definite): without noise a signal is never forgotten.")
    return matrix


def is_symmetric(Q: Float[Tensor, "size size"]) -> bool:
    """Whether a matrix is symmetric up to rounding."""
    return bool((Q - Q.mT).detach().abs().max() <= 1e-12 * Q.detach().abs().max())
