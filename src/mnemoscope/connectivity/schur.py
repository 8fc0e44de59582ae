"""The matrix of a non-normal RNN, by its Schur form."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.connectivity.connectivity import KnownSpectrum
from mnemoscope.connectivity.real_schur import RealSchur


class Schur(RealSchur):
    """`V = P (Lambda + T) P^T`: orthogonal P, rotations `gamma_i R(theta_i)` of pairs in Lambda, strictly lower T
    (Kerg, Eq 3.5.1; Kerg et al. 2019, Eq 4). The eigenvalues are `gamma_i e^{+-i theta_i}`, whatever T and P are.

    With P by the exponential there are N (N - 1) / 2 parameters of P, N (N - 2) / 2 of T, N / 2 angles and N / 2
    moduli. P starts by `init`, theta ~ U(0, 2 pi), gamma = 1 and T = 0, so that V starts orthogonal. The source has
    even N; of an odd number of eigenvalues the last one is real. Without T it is `Normal`.

    Args:
        size: rows and columns N.
        basis: kind of P, one of `ORTHOGONAL`.
        init: of P; that of its kind unless given, Henaff's for the exponential.
        modulus_penalty: delta, the weight of `sum_i (gamma_i - 1)^2` in the loss.
        modulus: where gamma starts, and what it is clamped to.
        clamp: gamma stays within `clamp` of `modulus`, the nearest such value being used; 0: it is not learned; None:
            it is free.
        decay: weight of `|T|^2 / 2` in the loss ("T decay").
        within_pairs: T has the entry inside each 2 x 2 block too, as in the code that was released with the source. The
            moduli of the eigenvalues are then no longer gamma.

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
        """`Lambda + T`."""
        places, values = torch.cat([self._places, self._block_places]), torch.cat([self.T, self._block_values()])
        return self._filled(places, values, accumulate=self.within_pairs)

    def non_normal(self) -> Float[Tensor, "n n"]:
        """T, as a matrix."""
        return self._filled(self._places, self.T)

    def spectrum(self) -> KnownSpectrum:
        """The eigenvalues."""
        return KnownSpectrum() if self.within_pairs else KnownSpectrum(eigenvalues=self.eigenvalues())

    def penalty(self) -> Float[Tensor, ""] | None:
        """`delta sum_i (gamma_i - 1)^2 + decay |T|^2 / 2`."""
        free = super().penalty()
        if not self.decay:
            return free
        decayed = 0.5 * self.decay * self.T.square().sum()
        return decayed if free is None else free + decayed
