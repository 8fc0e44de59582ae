"""A non-normal matrix by its real Schur form: the matrix of nnRNN."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.connectivity.connectivity import KnownSpectrum
from mnemoscope.connectivity.real_schur import RealSchur


class Schur(RealSchur):
    """`V = P (Lambda + T) P^T`, a real Schur form (Kerg, Eq 3.5.1; Kerg et al. 2019, Eq 4).

    P is orthogonal, Lambda has 2 x 2 blocks `gamma_i R(theta_i)` on its diagonal, and T is strictly lower triangular.
    The eigenvalues are `gamma_i e^{+-i theta_i}`, whatever T and P are. Without T the matrix is `Normal`.

    With P by the exponential there are N (N - 1) / 2 parameters of P, N (N - 2) / 2 of T, N / 2 angles and N / 2
    moduli. At the start theta ~ U(0, 2 pi), gamma = 1 and T = 0, so that V is orthogonal. In the source N is even; if N
    is odd, the last eigenvalue is real.

    Args:
        size: rows and columns N.
        basis: parametrisation of P, one of `ORTHOGONAL`.
        init: initialiser of P; None for the default of the parametrisation, Henaff's for the exponential.
        modulus_penalty: delta, the weight of `sum_i (gamma_i - 1)^2` in the loss.
        modulus: initial value of gamma, and the centre of the interval it is clamped to.
        clamp: gamma is clamped to `modulus` +- `clamp`; 0 for a constant gamma, None for no limits.
        decay: weight of `|T|^2 / 2` in the loss ("T decay").
        within_pairs: T also has the entry inside each 2 x 2 block, as in the code released with the source. The moduli
            of the eigenvalues are then no longer gamma.

    >>> V = Schur(6, init="cayley")
    >>> torch.linalg.eigvals(V()).abs().round(decimals=4).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]

    """

    _places: Tensor

    def __init__(
        self,
        size: int,
        basis: str = "exponential",
        init: str | None = None,
        modulus_penalty: float = 1e-4,
        modulus: float = 1.0,
        clamp: float | None = None,
        decay: float = 0.0,
        within_pairs: bool = False,
    ) -> None:
        super().__init__(size, basis, init, modulus_penalty, modulus, clamp)
        if not 0 <= decay < torch.inf:
            raise ValueError(f"decay must be at least 0 and finite, but is {decay}.")
        self.decay, self.within_pairs = decay, within_pairs
        rows, columns = torch.tril_indices(size, size, -1)
        kept = slice(None) if within_pairs else rows // 2 != columns // 2
        rows, columns = rows[kept], columns[kept]
        self.T = nn.Parameter(torch.zeros(len(rows)))
        self.register_buffer("_places", rows * size + columns, persistent=False)

    def schur_form(self) -> Float[Tensor, "n n"]:
        """Return `Lambda + T`."""
        places, values = torch.cat([self._places, self._block_places]), torch.cat([self.T, self._block_values()])
        return self._filled(places, values, accumulate=self.within_pairs)

    def non_normal(self) -> Float[Tensor, "n n"]:
        """Return T as a matrix."""
        return self._filled(self._places, self.T)

    def spectrum(self) -> KnownSpectrum:
        """Return the eigenvalues, which are known unless T changes the 2 x 2 blocks."""
        return KnownSpectrum() if self.within_pairs else KnownSpectrum(eigenvalues=self.eigenvalues())

    def penalty(self) -> Float[Tensor, ""] | None:
        """Return `delta sum_i (gamma_i - 1)^2 + decay |T|^2 / 2`."""
        moduli = super().penalty()
        if not self.decay:
            return moduli
        decay = 0.5 * self.decay * self.T.square().sum()
        return decay if moduli is None else moduli + decay
