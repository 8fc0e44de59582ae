"""The Schur form as in Kerg's thesis on non-normal networks: orthogonal modes that rotate and scale (Lambda) and feed
the modes below them (T).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Complex, Float, Inexact

TIED = 1e-10
"""Eigenvalues whose moduli differ by less than this share of the largest stay in the order of LAPACK."""


@dataclass(frozen=True)
class SubDiagonals:
    """The entries of T at offset k = 1, 2, ... below the diagonal (Kerg's thesis, Fig 3c): index k - 1 holds offset k.

    Entries inside a rotation block of Lambda couple no two modes and are left out; NaN where none remain.
    """

    mean: Inexact[Tensor, " offsets"]
    std: Float[Tensor, " offsets"]
    magnitude: Float[Tensor, " offsets"]
    """Mean absolute value."""


@dataclass(frozen=True)
class SchurForm:
    """`A = P (Lambda + T) P^*` with P orthogonal or unitary (Kerg's thesis, Eq 3.4.1 and 3.5.1).

    Lambda is normal and holds the eigenvalues: for a real matrix, real numbers, and a 2 x 2 block gamma R(theta) with
    0 < theta < pi for each complex pair; for a complex matrix, a diagonal.

    T is strictly lower triangular, except inside the blocks of a real matrix. A block [[a, -b], [c, a]] has the
    eigenvalues a +- i sqrt(b c). It is a rotation only if b = c; otherwise no strictly lower T leaves a rotation with
    these eigenvalues (Eq 3.5.1 is less general than stated), and T has an entry on either side of the diagonal.
    """

    P: Inexact[Tensor, "size size"]
    Lambda: Inexact[Tensor, "size size"]
    T: Inexact[Tensor, "size size"]

    @cached_property
    def theta(self) -> Inexact[Tensor, "size size"]:
        """The Schur form itself, Theta = Lambda + T."""
        return self.Lambda + self.T

    @property
    def block(self) -> Bool[Tensor, " pairs"]:
        """Whether mode k and mode k + 1 form a rotation block."""
        return self.Lambda.diagonal(-1) != 0

    @cached_property
    def eigenvalues(self) -> Complex[Tensor, " size"]:
        """The eigenvalues in the order of Lambda; of a complex pair, the one above the real axis first."""
        values = self.Lambda.diagonal() + 0j
        first = self.block.nonzero()[:, 0]
        turn = self.Lambda.diagonal(-1)[first]
        values[first] += 1j * turn
        values[first + 1] -= 1j * turn
        return values

    @property
    def angles(self) -> Float[Tensor, " angles"]:
        """theta_i of Eq 3.5.1: one in (0, pi) per rotation block, 0 or pi per real eigenvalue, none for eigenvalue 0.

        For a complex matrix, the angle of each eigenvalue in (-pi, pi].
        """
        second = torch.zeros(len(self.P), dtype=torch.bool)
        second[1:] = self.block
        kept = ~second & (self.eigenvalues != 0)
        return self.eigenvalues[kept].angle()

    @property
    def departure(self) -> float:
        """Henrici's departure from normality, sqrt(|A|_F^2 - sum |lambda|^2) (Henrici 1962; Kerg's thesis, 2.3.1).

        That is the Frobenius norm of the strict triangle of the complex Schur form. It is summed from T, where nothing
        cancels: a block [[a, -b], [c, a]] adds 2 a^2 + b^2 + c^2 - 2 (a^2 + b c) = (b - c)^2.
        """
        below = torch.tril(self.T, -1)
        below.diagonal(-1)[self.block] = 0
        within = (self.T.diagonal(1) + self.T.diagonal(-1))[self.block]
        return float(torch.linalg.vector_norm(torch.cat([below.flatten(), within])))

    def sub_diagonals(self) -> SubDiagonals:
        """Return mean, standard deviation and mean magnitude of every sub-diagonal of T."""
        entries = [self.T.diagonal(-offset) for offset in range(1, len(self.T))]
        if entries:
            entries[0] = entries[0][~self.block]
        mean = [diagonal.mean() for diagonal in entries]
        std = [(d - average).abs().square().mean().sqrt() for d, average in zip(entries, mean, strict=True)]
        magnitude = [diagonal.abs().mean() for diagonal in entries]
        if not entries:
            none = self.T.new_zeros(0)
            return SubDiagonals(none, none.real, none.real)
        return SubDiagonals(*map(torch.stack, (mean, std, magnitude)))


def schur_form(A: Inexact[Tensor, "size size"]) -> SchurForm:
    """Return the Schur form of a matrix, eigenvalues in descending order of modulus.

    The lower form of A is the transpose of the upper form of A^*: `A^* = Q S Q^*` gives `A = Q S^* Q^*`.
    """
    complex_ = A.is_complex()
    upper: Any = scipy.linalg.schur(A.mH.resolve_conj().numpy(), output="complex" if complex_ else "real")
    S, Q = _ordered(*upper)
    theta, P = S.conj().T.copy(), Q.copy()
    if complex_:
        diagonal = np.diag(np.diag(theta))
        return SchurForm(*map(torch.from_numpy, (P, diagonal, np.tril(theta, -1))))
    first = np.flatnonzero(np.diag(S, -1))
    flip = np.ones(len(S))
    flip[first[theta[first + 1, first] < 0] + 1] = -1  # the sign of a mode is free: rotate by less than pi
    theta, P = flip[:, None] * theta * flip, P * flip
    diagonal = np.diag(np.diag(theta))
    turn = np.sqrt(theta[first + 1, first]) * np.sqrt(-theta[first, first + 1])  # sqrt(b c), without overflow
    diagonal[first + 1, first], diagonal[first, first + 1] = turn, -turn
    return SchurForm(*map(torch.from_numpy, (P, diagonal, theta - diagonal)))


def complex_triangle(form: SchurForm) -> np.ndarray:
    """Return an upper triangular S such that `z - S` has the singular values of `z - A` for any z."""
    upper = form.theta.mT.numpy()
    if form.T.is_complex() or not bool(form.block.any()):
        return np.array(upper, complex, order="F")
    triangle, _ = scipy.linalg.rsf2csf(upper, np.eye(len(upper)))
    return np.asfortranarray(triangle)


def _ordered(S: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort the blocks of an upper Schur form by descending modulus, by orthogonal rotations (LAPACK trexc)."""
    move: Any = scipy.linalg.get_lapack_funcs("trexc", (S,))
    S, Q = np.asfortranarray(S), np.asfortranarray(Q)
    row = 0
    while row < len(S):
        starts, moduli = _blocks(S)
        near = (starts >= row) & (moduli >= moduli[starts >= row].max() - TIED * moduli.max())
        largest = int(starts[np.argmax(near)])  # the first of them
        if largest != row:
            S, Q, failed = move(S, Q, largest + 1, row + 1, overwrite_a=1, overwrite_q=1)
            if failed:  # the eigenvalues are too close to be exchanged; the form stays valid
                break
        row += 1 + int(row + 1 < len(S) and S[row + 1, row] != 0)
    return S, Q


def _blocks(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row and the |eigenvalue| of each diagonal block."""
    below = np.diag(S, -1)
    pair = np.flatnonzero(below)
    moduli = np.abs(np.diag(S))
    moduli[pair] = np.hypot(moduli[pair], np.sqrt(np.abs(below[pair])) * np.sqrt(np.abs(np.diag(S, 1)[pair])))
    starts = np.ones(len(S), dtype=bool)
    starts[pair + 1] = False
    return np.flatnonzero(starts), moduli[starts]
