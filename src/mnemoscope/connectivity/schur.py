"""Matrices by their real Schur form `V = P F P^T`: normal matrices, and the non-normal matrix of nnRNN."""

from __future__ import annotations

from collections.abc import Iterator
from math import pi

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.connectivity.connectivity import Connectivity, KnownSpectrum
from mnemoscope.connectivity.parametrisations import orthogonal


class RealSchur(Connectivity):
    """Base class of matrices `V = P F P^T` with orthogonal P.

    The diagonal of F has the blocks of Lambda: first 2 x 2 rotations `gamma_i R(theta_i)`, then real eigenvalues
    `+-gamma_i`. At the start theta ~ U(0, 2 pi) and gamma = `modulus`. Subclasses define the rest of F.

    Args:
        size: rows and columns N.
        basis: parametrisation of P, one of `ORTHOGONAL`.
        init: initialiser of P; None for the default of the parametrisation, Henaff's for the exponential.
        modulus_penalty: delta, the weight of `sum_i (gamma_i - 1)^2` in the loss.
        modulus: initial value of gamma, and the centre of the interval it is clamped to; below 1 for a linear network
            that forgets.
        clamp: gamma is clamped to `modulus` +- `clamp`; 0 for a constant gamma, None for no limits.
        real: number of independent real eigenvalues, N minus an even number; 0 or 1 by default.
        negative: number of real eigenvalues that are negative at the start; half of them by default.

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


class Normal(RealSchur):
    """`V = P Lambda P^T`, a normal matrix: `V V^T = V^T V`, also while it learns.

    P is orthogonal; Lambda has 2 x 2 blocks `gamma_i R(theta_i)` and real numbers on its diagonal. A real matrix is
    normal if and only if it has this form (Serre 2002, Theorem 3.3.1), the Schur form of nnRNN (`Schur`) without T.

    Its eigenvectors are orthogonal. There is therefore no transient growth beyond the largest eigenvalue, and a linear
    network keeps all Fisher information about its inputs, `|w|^2` (Ganguli et al. 2008), however V learns.

    The number of real eigenvalues is fixed: two complex ones that meet on the real axis stay equal. By default it is
    as small as possible, 0 for even N and 1 for odd N; with `real` = N the matrix is symmetric. A real eigenvalue
    changes sign by passing through 0, unless it is clamped.

    With P by the exponential there are N (N - 1) / 2 parameters of P, one angle and one modulus for each pair, and one
    modulus for each real eigenvalue. At the start P is uniform over the rotations. `RealSchur` documents the arguments.

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
        return self.normal_part()

    def spectrum(self) -> KnownSpectrum:
        """Return the eigenvalues, and the singular values, which are their moduli."""
        pairs, real = self._split()
        return KnownSpectrum(self.eigenvalues(), torch.cat([pairs, pairs, real]).abs())


class Schur(RealSchur):
    """`V = P (Lambda + T) P^T`, a real Schur form (Kerg, Eq 3.5.1; Kerg et al. 2019, Eq 4).

    P is orthogonal, Lambda has 2 x 2 blocks `gamma_i R(theta_i)` on its diagonal, and T is strictly lower triangular.
    The eigenvalues are `gamma_i e^{+-i theta_i}`, whatever T and P are. Without T the matrix is `Normal`.

    With P by the exponential there are N (N - 1) / 2 parameters of P, N (N - 2) / 2 of T, N / 2 angles and N / 2
    moduli. At the start gamma = 1 and T = 0, so that V is orthogonal. In the source N is even; if N is odd, the last
    eigenvalue is real.

    The arguments are those of `RealSchur` and two more: `decay`, the weight of `|T|^2 / 2` in the loss ("T decay"), and
    `within_pairs`, with which T also has the entry inside each 2 x 2 block, as in the code released with the source.
    The moduli of the eigenvalues are then no longer gamma.

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
