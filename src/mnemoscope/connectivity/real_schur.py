"""Matrices parametrised by their real Schur form: eigenvalues in blocks, and an orthogonal basis."""

from __future__ import annotations

from collections.abc import Iterator
from math import pi

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.connectivity.connectivity import Connectivity
from mnemoscope.connectivity.parametrisations import orthogonal


class RealSchur(Connectivity):
    """Base class of matrices `V = P F P^T` with orthogonal P.

    The diagonal of F has the blocks of Lambda: first 2 x 2 rotations `gamma_i R(theta_i)`, then real eigenvalues
    `+-gamma_i`. Subclasses define the rest of F and document the arguments.
    """

    _block_places: Tensor
    signs: Tensor
    """Signs of the real eigenvalues while their gamma is not negative."""

    def __init__(
        self,
        size: int,
        basis: str,
        init: str | None,
        modulus_penalty: float,
        modulus: float,
        clamp: float | None,
        real: int | None = None,
        negative: int | None = None,
    ) -> None:
        super().__init__(size)
        for name, value in (("modulus_penalty", modulus_penalty), ("modulus", modulus), ("clamp", clamp)):
            if value is not None and not 0 <= value < torch.inf:
                raise ValueError(f"{name} must be at least 0 and finite, but is {value}.")
        self.modulus_penalty, self.modulus, self.clamp = modulus_penalty, modulus, clamp
        self.real = real = _checked_real(size, real)
        self.basis = orthogonal(basis, size, init)
        self.pairs = pairs = (size - real) // 2
        self.theta = nn.Parameter(torch.empty(pairs).uniform_(0, 2 * pi), requires_grad=pairs > 0)
        self.gamma = nn.Parameter(torch.full((pairs + real,), float(modulus)), requires_grad=clamp != 0)
        self.register_buffer("signs", _signs(real, negative), persistent=real > 0)
        first, single = torch.arange(0, 2 * pairs, 2) * (size + 1), torch.arange(2 * pairs, size) * (size + 1)
        places = torch.cat([first, first + 1, first + size, first + size + 1, single])
        self.register_buffer("_block_places", places, persistent=False)

    def forward(self) -> Float[Tensor, "n n"]:
        P = self.basis()
        return P @ self.schur_form() @ P.mT

    def schur_form(self) -> Float[Tensor, "n n"]:
        """Return F."""
        raise NotImplementedError(f"{type(self).__name__} must define schur_form().")

    def normal_part(self) -> Float[Tensor, "n n"]:
        """Return Lambda."""
        return self._filled(self._block_places, self._block_values())

    def moduli(self) -> Float[Tensor, " pairs_and_real"]:
        """Return gamma, clamped if `clamp` is given: first those of the pairs, then those of the real eigenvalues."""
        if self.clamp is None:
            return self.gamma
        return self.gamma.clamp(self.modulus - self.clamp, self.modulus + self.clamp)

    def eigenvalues(self) -> Complex[Tensor, " n"]:
        """Return the eigenvalues of Lambda: `gamma_i e^{+-i theta_i}`, then the real ones."""
        pairs, real = self._split()
        half = torch.polar(pairs, self.theta)
        return torch.cat([half, half.conj(), torch.complex(real, torch.zeros_like(real))])

    def penalty(self) -> Float[Tensor, ""] | None:
        """Return `delta sum_i (gamma_i - 1)^2` over pairs and real eigenvalues."""
        if not self.modulus_penalty:
            return None
        return self.modulus_penalty * (self.moduli() - 1).square().sum()

    def orthogonal_parameters(self) -> Iterator[nn.Parameter]:
        return self.basis.orthogonal_parameters()

    @torch.no_grad()
    def after_step(self) -> None:
        """Project gamma back into its interval: outside, the clamp would give it no gradient."""
        self.gamma.copy_(self.moduli())

    def _split(self) -> tuple[Float[Tensor, " pairs"], Float[Tensor, " real"]]:
        """Return the moduli of the pairs, and the real eigenvalues."""
        pairs, real = self.moduli().split((self.pairs, self.real))
        return pairs, self.signs * real

    def _block_values(self) -> Float[Tensor, " values"]:
        gamma, real = self._split()
        re, im = gamma * self.theta.cos(), gamma * self.theta.sin()
        return torch.cat([re, -im, im, re, real])

    def _filled(self, places: Tensor, values: Tensor, accumulate: bool = False) -> Float[Tensor, "n n"]:
        form = values.new_zeros(self.size**2).index_put((places,), values, accumulate=accumulate)
        return form.view(self.size, self.size)


def _checked_real(size: int, real: int | None) -> int:
    if real is None:
        return size % 2
    if not 0 <= real <= size or (size - real) % 2:
        parity = "an odd" if size % 2 else "an even"
        raise ValueError(
            f"Eigenvalues that are not real come in pairs: of {size} {parity} number from {size % 2} to {size} can be "
            f"real, but real is {real}."
        )
    return real


def _signs(real: int, negative: int | None) -> Float[Tensor, " real"]:
    """Return the initial signs: the last `negative` of them are -1, by default half."""
    negative = real // 2 if negative is None else negative
    if not 0 <= negative <= real:
        raise ValueError(f"Of {real} real eigenvalues {negative} cannot be negative; choose negative in 0..{real}.")
    return torch.where(torch.arange(real) < real - negative, 1.0, -1.0)
