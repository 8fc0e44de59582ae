"""The matrix of a non-normal RNN, by its Schur form."""

from __future__ import annotations

from collections.abc import Iterator
from math import pi

import torch
from torch import Tensor, nn

from mnemoscope.connectivity.connectivity import Claim, Connectivity
from mnemoscope.connectivity.kinds import orthogonal
from mnemoscope.shapes import Complex, Float


class Schur(Connectivity):
    """`V = P (Lambda + T) P^T`: orthogonal P, rotations `gamma_i R(theta_i)` of pairs in Lambda, strictly lower T
    (Kerg, Eq 3.5.1; Kerg et al. 2019, Eq 4). The eigenvalues are `gamma_i e^{+-i theta_i}`, whatever T and P are.

    With P by the exponential there are N (N - 1) / 2 parameters of P, N (N - 2) / 2 of T, N / 2 angles and N / 2
    moduli. P starts by `init`, theta ~ U(0, 2 pi), gamma = 1 and T = 0, so that V starts orthogonal.

    Args:
        size: rows and columns N; even.
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
    _block_places: Tensor

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
        super().__init__(size)
        if size % 2:
            raise ValueError(f"Eigenvalues come in pairs: size must be even, but is {size}.")
        for name, value in (
            ("modulus_penalty", modulus_penalty),
            ("modulus", modulus),
            ("clamp", clamp),
            ("decay", decay),
        ):
            if value is not None and not 0 <= value < torch.inf:
                raise ValueError(f"{name} must be at least 0 and finite, but is {value}.")
        self.modulus_penalty, self.modulus, self.clamp, self.decay = modulus_penalty, modulus, clamp, decay
        self.within_pairs = within_pairs
        self.basis = orthogonal(basis, size, init)
        self.theta = nn.Parameter(torch.empty(size // 2).uniform_(0, 2 * pi))
        self.gamma = nn.Parameter(torch.full((size // 2,), modulus), requires_grad=clamp != 0)
        rows, columns = torch.tril_indices(size, size, -1)
        kept = slice(None) if within_pairs else rows // 2 != columns // 2
        rows, columns = rows[kept], columns[kept]
        self.T = nn.Parameter(torch.zeros(len(rows)))
        self.register_buffer("_places", rows * size + columns, persistent=False)
        first = torch.arange(0, size, 2) * (size + 1)
        self.register_buffer("_block_places", torch.cat([first, first + 1, first + size, first + size + 1]),
                             persistent=False)  # fmt: skip

    def forward(self) -> Float[Tensor, "n n"]:
        P = self.basis()
        return P @ self.schur_form() @ P.mT

    def schur_form(self) -> Float[Tensor, "n n"]:
        """`Lambda + T`."""
        gamma = self.moduli()
        re, im = gamma * self.theta.cos(), gamma * self.theta.sin()
        values = torch.cat([self.T, re, -im, im, re])
        places = torch.cat([self._places, self._block_places])
        form = self.T.new_zeros(self.size**2).index_put((places,), values, accumulate=self.within_pairs)
        return form.view(self.size, self.size)

    def non_normal(self) -> Float[Tensor, "n n"]:
        """T, as a matrix."""
        return self.T.new_zeros(self.size**2).index_put((self._places,), self.T).view(self.size, self.size)

    def moduli(self) -> Float[Tensor, " pairs"]:
        """gamma, clamped where that was asked for."""
        if self.clamp is None:
            return self.gamma
        return self.gamma.clamp(self.modulus - self.clamp, self.modulus + self.clamp)

    def spectrum(self) -> Claim:
        """The eigenvalues."""
        if self.within_pairs:
            return Claim()
        half: Complex[Tensor, " pairs"] = torch.polar(self.moduli(), self.theta)
        return Claim(eigenvalues=torch.cat([half, half.conj()]))

    def penalty(self) -> Float[Tensor, ""]:
        """`delta sum_i (gamma_i - 1)^2 + decay |T|^2 / 2`."""
        free = self.modulus_penalty * (self.moduli() - 1).square().sum()
        return free + 0.5 * self.decay * self.T.square().sum() if self.decay else free

    def orthogonal_parameters(self) -> Iterator[nn.Parameter]:
        return self.basis.orthogonal_parameters()

    @torch.no_grad()
    def after_step(self) -> None:
        """Bring gamma back to its margin: beyond it, it would have no gradient to return by."""
        self.gamma.copy_(self.moduli())
