"""Normal matrices: they keep `V V^T = V^T V` while they learn."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.connectivity.connectivity import KnownSpectrum
from mnemoscope.connectivity.real_schur import RealSchur


class Normal(RealSchur):
    """`V = P Lambda P^T`, a normal matrix: `V V^T = V^T V`.

    P is orthogonal; Lambda has 2 x 2 blocks `gamma_i R(theta_i)` and real numbers on its diagonal. A real matrix is
    normal if and only if it has this form (Serre 2002, Theorem 3.3.1), the Schur form of nnRNN (`Schur`) without T.

    Its eigenvectors are orthogonal. There is therefore no transient growth beyond the largest eigenvalue, and a linear
    network keeps all Fisher information about its inputs, `|w|^2` (Ganguli et al. 2008), however V learns.

    The number of real eigenvalues is fixed: two complex ones that meet on the real axis stay equal. By default it is
    as small as possible, 0 for even N and 1 for odd N; with `real` = N the matrix is symmetric. A real eigenvalue
    changes sign by passing through 0, unless it is clamped.

    With P by the exponential there are N (N - 1) / 2 parameters of P, one angle and one modulus for each pair, and one
    modulus for each real eigenvalue. At the start P is uniform over the rotations, theta ~ U(0, 2 pi), and gamma =
    `modulus`.

    Args:
        size: rows and columns N.
        basis: parametrisation of P, one of `ORTHOGONAL`.
        init: initialiser of P; None for the default of the parametrisation, Henaff's for the exponential.
        modulus_penalty: weight of `sum_i (gamma_i - 1)^2` in the loss.
        modulus: initial value of gamma, and the centre of the interval it is clamped to; below 1 for a linear network
            that forgets.
        clamp: gamma is clamped to `modulus` +- `clamp`; 0 for a constant gamma, None for no limits.
        real: number of independent real eigenvalues; N minus an even number.
        negative: number of real eigenvalues that are negative at the start; half of them by default.

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
        """Return Lambda."""
        return self.normal_part()

    def spectrum(self) -> KnownSpectrum:
        """Return the eigenvalues, and the singular values, which are their moduli."""
        pairs, real = self._split()
        return KnownSpectrum(self.eigenvalues(), torch.cat([pairs, pairs, real]).abs())
