"""Matrices that stay normal while they learn."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.connectivity.connectivity import KnownSpectrum
from mnemoscope.connectivity.real_schur import RealSchur


class Normal(RealSchur):
    """`V = P Lambda P^T` with `V V^T = V^T V`: orthogonal P, and in Lambda rotations `gamma_i R(theta_i)` of pairs and
    single real numbers. A real matrix is normal if and only if it is of this form (Serre 2002, Theorem 3.3.1).

    Its eigenvectors are orthogonal, so that nothing grows for a while by more than its largest eigenvalue, and a linear
    network of it keeps all of the Fisher information of its past, `|w|^2` (Ganguli et al. 2008), however it learns. It
    is the Schur form of nnRNN without what is below the blocks (`Schur`).

    How many eigenvalues are real is chosen and does not change: two complex ones that meet on the real axis are equal
    there. By default as few as can be are real, none of an even number, one of an odd one; with `real` = N the matrix
    is symmetric. A real one changes its sign by passing through 0, unless it is clamped.

    With P by the exponential there are N (N - 1) / 2 parameters of P, one angle and one modulus for each pair, and one
    modulus for each real eigenvalue. P starts uniform over the rotations, theta ~ U(0, 2 pi), gamma = `modulus`.

    Args:
        size: rows and columns N.
        basis: kind of P, one of `ORTHOGONAL`.
        init: of P; None: that of its kind, Henaff's for the exponential.
        modulus_penalty: weight of `sum_i (gamma_i - 1)^2` in the loss.
        modulus: where gamma starts, and what it is clamped to; below 1 for a linear network that forgets.
        clamp: gamma stays within `clamp` of `modulus`, the nearest such value being used; 0: it is not learned; None:
            it is free.
        real: how many eigenvalues are real and free of each other; N minus an even number.
        negative: how many of these start below 0; half of them unless given.

    >>> V = Normal(5, modulus=2)()
    >>> torch.allclose(V @ V.mT, V.mT @ V, atol=1e-5), torch.linalg.eigvals(V).abs().round().tolist()
    (True, [2.0, 2.0, 2.0, 2.0, 2.0])
    >>> V = Normal(4, real=4)()
    >>> torch.allclose(V, V.mT, atol=1e-6), torch.linalg.eigvalsh(V).round().tolist()
    (True, [-1.0, -1.0, 1.0, 1.0])

    """

    def __init__(
        self,
        size: int,
        basis: str = "exponential",
        init: str | None = "random",
        modulus_penalty: float = 0.0,
        modulus: float = 1.0,
        clamp: float | None = None,
        real: int | None = None,
        negative: int | None = None,
    ) -> None:
        super().__init__(size, basis, init, modulus_penalty, modulus, clamp, real, negative)

    def schur_form(self) -> Float[Tensor, "n n"]:
        """Lambda."""
        return self.normal_part()

    def spectrum(self) -> KnownSpectrum:
        """The eigenvalues, and the singular values, which are their moduli."""
        found = self.eigenvalues()
        pairs, single = self._split()
        return KnownSpectrum(found, torch.cat([pairs, pairs, single]).abs())
