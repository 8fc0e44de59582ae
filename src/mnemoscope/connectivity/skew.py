"""Skew-symmetric and skew-Hermitian matrices, and their initialisers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.connectivity.connectivity import Connectivity


class Skew(nn.Module):
    """A skew matrix, `A^H = -A`, with N (N - 1) / 2 real parameters, or N^2 if it is complex."""

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
            # the diagonal has each number once, the rest twice: this weight gives all steps the same Frobenius norm
            self.register_buffer("_shares", torch.where(rows == columns, 0.5**0.5, 1.0), persistent=False)

    def forward(self) -> Inexact[Tensor, "n n"]:
        upper = _triangle(self.above, self._places, self.size)
        if self.imaginary is None:
            return upper - upper.mT
        im = _triangle(self.imaginary * self._shares, self._imaginary_places, self.size)
        return torch.complex(upper - upper.mT, im + im.mT)

    @torch.no_grad()
    def fill(self, A: Inexact[Tensor, "n n"]) -> None:
        """Set the parameters so that the matrix becomes A, which must be skew."""
        self.above.copy_(A.real.flatten()[self._places])
        if self.imaginary is not None:
            im = A.imag if A.is_complex() else torch.zeros_like(A)
            im = im - 0.5 * torch.diag(im.diagonal())
            self.imaginary.copy_(im.flatten()[self._imaginary_places] / self._shares)


def _triangle(values: Float[Tensor, " numbers"], places: Tensor, size: int) -> Float[Tensor, "n n"]:
    return values.new_zeros(size * size).index_put((places,), values).view(size, size)


def identity(size: int, complex: bool) -> Inexact[Tensor, "n n"]:
    """Return zeros, whose exponential and Cayley transform are the identity."""
    return torch.zeros(size, size, dtype=_dtype(complex))


ANGLES: dict[str, tuple[float, float]] = {"henaff": (-pi, pi), "cayley": (0.0, pi / 2), "identity": (0.0, 0.0)}
"""Range of the uniform initial angles, in radians, by initialiser, for matrices parametrised by angles."""


def henaff(size: int, complex: bool) -> Inexact[Tensor, "n n"]:
    """Return blocks with s ~ U(-pi, pi), or a diagonal of i s if complex (Henaff et al. 2016).

    In the exponential, s is the angle of a rotation.
    """
    if complex:
        return torch.diag(1j * torch.empty(size).uniform_(*ANGLES["henaff"]))
    return blocks(torch.empty(size // 2).uniform_(*ANGLES["henaff"]), size)


def cayley(size: int, complex: bool) -> Inexact[Tensor, "n n"]:
    """Return blocks with `s = sqrt((1 - cos t) / (1 + cos t))`, t ~ U(0, pi / 2) (Helfrich et al. 2018, 4.2)."""
    t = torch.empty(size // 2).uniform_(*ANGLES["cayley"])
    return blocks(((1 - t.cos()) / (1 + t.cos())).sqrt(), size).to(_dtype(complex))


def glorot(size: int, complex: bool) -> Inexact[Tensor, "n n"]:
    """Return a skew matrix whose entries are normal with variance 1/N."""
    A = torch.randn(size, size, dtype=_dtype(complex)).triu(1) / size**0.5
    return A - A.mH


SKEW_INITIALISERS: dict[str, Callable[[int, bool], Tensor]] = {
    "henaff": henaff,
    "cayley": cayley,
    "identity": identity,
    "glorot": glorot,
}
"""Each returns a skew matrix from its size and whether it is complex."""


def blocks(s: Float[Tensor, " pairs"], size: int) -> Float[Tensor, "size size"]:
    """Return the skew matrix of 2 x 2 blocks ((0, -s), (s, 0)); if the size is odd, the last row is zero."""
    A = s.new_zeros(size, size)
    first = torch.arange(0, size - 1, 2)
    A[first + 1, first], A[first, first + 1] = s, -s
    return A


def random_unitary(size: int, complex: bool) -> Inexact[Tensor, "n n"]:
    """Return a uniformly distributed unitary matrix, or orthogonal one of determinant 1, in float64.

    It comes from a QR decomposition of normal numbers (Mezzadri 2007).
    """
    X = torch.randn(size, size, dtype=torch.complex128 if complex else torch.float64)
    Q, R = torch.linalg.qr(X)
    Q = Q * (R.diagonal() / R.diagonal().abs())
    if not complex and torch.linalg.det(Q) < 0:
        Q[:, 0] *= -1
    return Q


def logarithm(Q: Inexact[Tensor, "n n"]) -> Inexact[Tensor, "n n"]:
    """Return the skew logarithm of a unitary matrix with distinct eigenvalues."""
    eigenvalues, vectors = torch.linalg.eig(Q)
    A = vectors @ torch.diag(1j * eigenvalues.angle()) @ torch.linalg.inv(vectors)
    A = A if Q.is_complex() else A.real
    return (A - A.mH) / 2


def _dtype(complex: bool) -> torch.dtype:
    return torch.complex64 if complex else torch.float32


def check_initialiser(init: str, names: Sequence[str], matrix: Connectivity) -> None:
    """Raise unless `init` is one of these names."""
    if init not in names:
        raise ValueError(f"{type(matrix).__name__} has no initialiser {init!r}; choose one of {', '.join(names)}.")
