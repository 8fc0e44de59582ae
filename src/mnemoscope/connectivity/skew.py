"""Skew-symmetric and skew-Hermitian matrices from free numbers, and what to fill them with at the start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.connectivity.connectivity import Connectivity


class Skew(nn.Module):
    """A skew matrix, `A^H = -A`: N (N - 1) / 2 free numbers if real, N^2 if complex, all of them real parameters."""

    _places: Tensor
    _imaginary_places: Tensor
    _shares: Tensor

    def __init__(self, size: int, complex: bool) -> None:
        super().__init__()
        self.size = size
        self.above = nn.Parameter(torch.zeros(size * (size - 1) // 2))
        self.imaginary = nn.Parameter(torch.zeros(size * (size + 1) // 2)) if complex else None
        rows, columns = torch.triu_indices(size, size, 1)
        self.register_buffer("_places", rows * size + columns, persistent=False)
        if complex:
            rows, columns = torch.triu_indices(size, size)
            self.register_buffer("_imaginary_places", rows * size + columns, persistent=False)
            # as long a step as the others take, in the length of matrices: these numbers stand there once, not twice
            self.register_buffer("_shares", torch.where(rows == columns, 0.5**0.5, 1.0), persistent=False)

    def forward(self) -> Inexact[Tensor, "n n"]:
        upper = _triangle(self.above, self._places, self.size)
        if self.imaginary is None:
            return upper - upper.mT
        im = _triangle(self.imaginary * self._shares, self._imaginary_places, self.size)
        return torch.complex(upper - upper.mT, im + im.mT)

    @torch.no_grad()
    def fill(self, A: Inexact[Tensor, "n n"]) -> None:
        """Take over the part of a skew matrix above the diagonal."""
        self.above.copy_(A.real.flatten()[self._places])
        if self.imaginary is not None:
            im = A.imag if A.is_complex() else torch.zeros_like(A)
            im = im - 0.5 * torch.diag(im.diagonal())
            self.imaginary.copy_(im.flatten()[self._imaginary_places] / self._shares)


def _triangle(values: Float[Tensor, " numbers"], places: Tensor, size: int) -> Float[Tensor, "n n"]:
    return values.new_zeros(size * size).index_put((places,), values).view(size, size)


# --- where to start ---------------------------------------------------------------------------------------------------


def identity(size: int, complex: bool) -> Inexact[Tensor, "n n"]:
    """Zero: the matrix is the identity."""
    return torch.zeros(size, size, dtype=_dtype(complex))


ANGLES: dict[str, tuple[float, float]] = {"henaff": (-pi, pi), "cayley": (0.0, pi / 2), "identity": (0.0, 0.0)}
"""Between which pairs of units are rotated, for matrices that are given by angles."""


def henaff(size: int, complex: bool) -> Inexact[Tensor, "n n"]:
    """Pairs with s ~ U(-pi, pi), or, complex, a diagonal of i s: with the exponential, s is the angle of a rotation
    (Henaff et al. 2016).
    """
    if complex:
        return torch.diag(1j * torch.empty(size).uniform_(*ANGLES["henaff"]))
    return blocks(torch.empty(size // 2).uniform_(*ANGLES["henaff"]), size)


def cayley(size: int, complex: bool) -> Inexact[Tensor, "n n"]:
    """Pairs with `s = sqrt((1 - cos t) / (1 + cos t))`, t ~ U(0, pi / 2) (Helfrich et al. 2018, section 4.2)."""
    t = torch.empty(size // 2).uniform_(*ANGLES["cayley"])
    return blocks(((1 - t.cos()) / (1 + t.cos())).sqrt(), size).to(_dtype(complex))


def glorot(size: int, complex: bool) -> Inexact[Tensor, "n n"]:
    """Normal numbers of variance 1/N, made skew."""
    A = torch.randn(size, size, dtype=_dtype(complex)).triu(1) / size**0.5
    return A - A.mH


SKEW_INITIALISERS: dict[str, Callable[[int, bool], Tensor]] = {
    "henaff": henaff,
    "cayley": cayley,
    "identity": identity,
    "glorot": glorot,
}


def blocks(s: Float[Tensor, " pairs"], size: int) -> Float[Tensor, "size size"]:
    """The skew matrix of 2 x 2 blocks ((0, -s), (s, 0)); where the size is odd, the last unit stays alone."""
    A = s.new_zeros(size, size)
    first = torch.arange(0, size - 1, 2)
    A[first + 1, first], A[first, first + 1] = s, -s
    return A


def random_unitary(size: int, complex: bool) -> Inexact[Tensor, "n n"]:
    """Uniform over the unitary matrices, or the orthogonal ones of determinant 1 (by QR; Mezzadri 2007), in float64."""
    X = torch.randn(size, size, dtype=torch.complex128 if complex else torch.float64)
    Q, R = torch.linalg.qr(X)
    Q = Q * (R.diagonal() / R.diagonal().abs())
    if not complex and torch.linalg.det(Q) < 0:
        Q[:, 0] *= -1
    return Q


def logarithm(Q: Inexact[Tensor, "n n"]) -> Inexact[Tensor, "n n"]:
    """The skew logarithm of a unitary matrix with distinct eigenvalues."""
    eigenvalues, vectors = torch.linalg.eig(Q)
    A = vectors @ torch.diag(1j * eigenvalues.angle()) @ torch.linalg.inv(vectors)
    A = A if Q.is_complex() else A.real
    return (A - A.mH) / 2


def _dtype(complex: bool) -> torch.dtype:
    return torch.complex64 if complex else torch.float32


def check_initialiser(init: str, names: Sequence[str], owner: Connectivity) -> None:
    """Refuse an unknown initialiser."""
    if init not in names:
        raise ValueError(f"{type(owner).__name__} has no initialiser {init!r}; choose one of {', '.join(names)}.")
