"""Sums of Kronecker products: the noise covariance of a matrix network, without its dense matrix.

C acts on matrices as `C(X) = sum_k P_k X Q_k`, where `P_k = U^kT E1 U^k` and `Q_k = V^kT E2 V^k`. The sum is doubled
like any covariance. After every doubling it is compressed to the fewest products that are the same up to rounding (an
operator Schmidt decomposition, through two thin QRs): hundreds of steps become about fifty terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fisher.operators import Kronecker, Map
from mnemoscope.lenses.fisher.stein import largest_share, sum_by_doubling

COMPRESSION = 1e-15
"""Share of C that one compression may drop; singular values below it are rounding errors."""
UNCOMPRESSED = 64
"""Number of products up to which a sum is not compressed."""
OVERFLOW = 1e150
"""Amplification whose square leaves the range of floats."""
WORKSPACE = 2**24
"""Largest temporary array, in numbers."""


@dataclass(frozen=True)
class Products:
    """The map `X -> sum_i P_i X Q_i` on matrices, where P_i and Q_i are symmetric.

    >>> two = Products(torch.stack([torch.eye(2), torch.ones(2, 2)]), torch.stack([torch.eye(3), torch.eye(3)]))
    >>> two(torch.ones(2, 1, 3))[:, 0]  # X + 1 X
    tensor([[3., 3., 3.],
            [3., 3., 3.]])
    >>> two.diagonal()
    tensor([[2., 2., 2.],
            [2., 2., 2.]])
    """

    P: Float[Tensor, "terms rows rows"]
    Q: Float[Tensor, "terms columns columns"]

    def __call__(self, X: Float[Tensor, "rows number columns"]) -> Float[Tensor, "rows number columns"]:
        """Apply the map to many matrices, stored with their rows first, so that each factor is one product."""
        terms, rows, columns = *self.P.shape[:2], self.Q.shape[1]
        P = self.P.movedim(0, 1).reshape(rows, terms * rows)
        parts = X.split(max(1, WORKSPACE // (terms * rows * columns)), dim=1)
        results = []
        for part in parts:
            right = part.reshape(1, -1, columns) @ self.Q  # (terms, rows number, columns)
            results.append((P @ right.view(terms * rows, -1)).view(part.shape))
        return torch.cat(results, dim=1)

    def diagonal(self) -> Float[Tensor, "rows columns"]:
        """Return the diagonal of the map: the coefficient of each entry in its own image."""
        return self.P.diagonal(dim1=1, dim2=2).mT @ self.Q.diagonal(dim1=1, dim2=2)

    def in_basis(self, E: Float[Tensor, "rows rows"], F: Float[Tensor, "columns columns"]) -> Products:
        """Return the same map in the coordinates `E^T X F`."""
        return Products(E.mT @ self.P @ E, F.mT @ self.Q @ F)

    def eigenbases(self) -> tuple[Float[Tensor, "rows rows"], Float[Tensor, "columns columns"]]:
        """Return the eigenbases of the covariances of rows and of columns, each summed over the other index."""
        traces = [part.diagonal(dim1=1, dim2=2).sum(1)[:, None, None] for part in (self.Q, self.P)]
        covariances = ((trace * part).sum(0) for trace, part in zip(traces, (self.P, self.Q), strict=True))
        E, F = (torch.linalg.eigh((matrix + matrix.mT) / 2)[1] for matrix in covariances)
        return E, F

    def compressed(self) -> Products:
        """Return the fewest products with the same sum, up to rounding."""
        rows, columns = self.P.shape[1], self.Q.shape[1]
        p, left = torch.linalg.qr(self.P.flatten(1).mT)
        q, right = torch.linalg.qr(self.Q.flatten(1).mT)
        u, s, v = torch.linalg.svd(left @ right.mT, full_matrices=False)
        tail = s.square().flip(0).cumsum(0).flip(0).sqrt()  # norm of this singular value and all smaller ones
        kept = int((tail > COMPRESSION * tail[0]).sum())
        weight = s[:kept].sqrt()
        P, Q = (p @ (u[:, :kept] * weight)).mT, (q @ (v[:kept].mT * weight)).mT
        return Products(P.reshape(kept, rows, rows), Q.reshape(kept, columns, columns))


def stationary_products(A: Kronecker, horizon: int | None = None) -> Products:
    """Return `sum_k A^k A^kT` as the fewest products, over all k or over `horizon` steps.

    >>> half = 0.5**0.5 * torch.eye(2, dtype=torch.float64)
    >>> C = stationary_products(Kronecker(half, half))
    >>> len(C.P), round(C.diagonal()[0, 0].item(), 10)  # 1 / (1 - 1/4)
    (1, 1.3333333333)
    """
    rows, columns = (torch.eye(len(part), dtype=part.dtype)[None] for part in (A.left, A.right))
    return sum_by_doubling(A, Products(rows, columns), _join_products, horizon).compressed()


def stein_residual(C: Products, A: Kronecker, horizon: int | None) -> float:
    """Return the norm of `C - A C A^T - I`, the residual of the Stein equation; with a horizon, plus `A^h A^hT`.

    It includes what compression dropped. The exact C is a sum over I, so that a residual R changes it, and J, by a
    share of at most `|R|`.
    """
    moved = _conjugated(C, A)
    eyes = [torch.eye(len(part), dtype=part.dtype)[None] for part in (A.left, A.right)]
    P, Q = [C.P, -moved.P, -eyes[0]], [C.Q, moved.Q, eyes[1]]
    if horizon is not None:
        left, right = (torch.linalg.matrix_power(part, horizon) for part in (A.left, A.right))
        P.append((left @ left.mT)[None])
        Q.append((right @ right.mT)[None])
    p, q = (torch.linalg.qr(torch.cat(parts).flatten(1).mT, mode="r")[1] for parts in (P, Q))
    return float(torch.linalg.matrix_norm(p @ q.mT))


def _join_products(later: Products, power: Map, earlier: Products) -> tuple[Products, float]:
    added = _conjugated(earlier, power)
    if not float(added.diagonal().abs().max()) < OVERFLOW:
        return later, inf
    both = Products(torch.cat([later.P, added.P]), torch.cat([later.Q, added.Q]))
    both = both.compressed() if len(both.P) > UNCOMPRESSED else both  # later steps amplify what is dropped early
    return both, largest_share(added.diagonal(), later.diagonal())


def _conjugated(C: Products, A: Map) -> Products:
    """Return `A C A^T`."""
    assert isinstance(A, Kronecker)
    return Products(A.left @ C.P @ A.left.mT, A.right @ C.Q @ A.right.mT)
