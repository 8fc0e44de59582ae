"""Orthogonal and unitary matrices from skew ones, by the exponential or by Cayley's transform."""

from __future__ import annotations

from collections.abc import Iterator
from math import pi
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.connectivity.connectivity import Connectivity, KnownSpectrum
from mnemoscope.connectivity.matrix_exponential import newton_schulz_step, remove_rounding, skew_exponential
from mnemoscope.connectivity.skew import SKEW_INITIALISERS, Skew, check_initialiser, logarithm, random_unitary


class Unitary(Connectivity):
    """An orthogonal matrix, or a unitary one: all that is known of any of them is that nothing grows or fades."""

    def spectrum(self) -> KnownSpectrum:
        """All singular values are 1."""
        return KnownSpectrum(self._eigenvalues(), torch.ones(self.size, dtype=self.dtype.to_real(), device=self.device))

    def orthogonal_parameters(self) -> Iterator[nn.Parameter]:
        return self.parameters()

    def _eigenvalues(self) -> Tensor | None:
        return None


class FromSkew(Unitary):
    """`V = f(A) B` for a skew A and a base B, which is the identity unless it moves: then B takes over V after every
    step of the optimiser and A starts from 0 again, so that every step is taken along the group from where one stands.
    """

    base: Tensor
    """As pairs of real numbers where V is complex."""

    def __init__(self, size: int, init: str, complex: bool, dynamic: bool) -> None:
        super().__init__(size)
        check_initialiser(init, self.initialisers, self)
        self.complex, self.dynamic = complex, dynamic
        self.skew = Skew(size, complex)
        self.skew.fill(self._at_start(init))
        if dynamic:
            base = self._first_base()
            # as pairs, since .double() passes complex buffers by
            self.register_buffer("base", torch.view_as_real(base) if complex else base)
            self.after_step()

    initialisers = (*SKEW_INITIALISERS, "random")
    """What `init` may be."""

    def forward(self) -> Inexact[Tensor, "n n"]:
        V = self._of(self.skew())
        if not self.dynamic:
            return V
        return V @ (torch.view_as_complex(self.base) if self.complex else self.base)

    def _apply(self, *how: Any, **options: Any) -> FromSkew:
        super()._apply(*how, **options)
        if self.dynamic and self.base.dtype == torch.float64:  # what was unitary in float32 is not quite in float64
            with torch.no_grad():
                base = torch.view_as_complex(self.base) if self.complex else self.base
                V = newton_schulz_step(base)
                self.base.copy_(torch.view_as_real(V) if self.complex else V)
        return self

    @torch.no_grad()
    def after_step(self) -> None:
        """Where the base moves, let it."""
        if self.dynamic:
            V = newton_schulz_step(self())  # else rounding errors would add up over the steps
            self.base.copy_(torch.view_as_real(V) if self.complex else V)
            for parameter in self.skew.parameters():
                parameter.zero_()

    def _of(self, A: Tensor) -> Tensor:
        """`f(A)`."""
        raise NotImplementedError(f"{type(self).__name__} must define _of(A).")

    def _first_base(self) -> Tensor:
        return torch.eye(self.size, dtype=self.dtype)

    def _at_start(self, init: str) -> Tensor:
        if init == "random":
            return self._skew_of(random_unitary(self.size, self.complex))
        return SKEW_INITIALISERS[init](self.size, self.complex)

    def _skew_of(self, Q: Tensor) -> Tensor:
        """An A with `f(A) = Q`."""
        raise NotImplementedError(f"{type(self).__name__} must define _skew_of(Q).")

    def _frequencies(self) -> Float[Tensor, " size"]:
        """A has the eigenvalues i times these."""
        return torch.linalg.eigvalsh(-1j * self.skew())


class Exponential(FromSkew):
    """`V = exp(A)`: the rotations SO(N), or the unitary matrices U(N); N (N - 1) / 2 or N^2 parameters.

    The matrix of expRNN (Lezcano-Casado & Martinez-Rubio 2019), or, complex, one of full capacity (Hyland & Raetsch
    2017).

    Args:
        size: rows and columns N.
        init: "henaff", "cayley", "identity", "glorot" (of A), or "random" (uniform over the group).
        complex: unitary instead of orthogonal.
        dynamic: take every step from where one stands (Lezcano-Casado 2019, dynamic trivialisation with period 1).

    >>> V = Exponential(4)()
    >>> torch.allclose(V @ V.mT, torch.eye(4), atol=1e-6)
    True

    """

    def __init__(self, size: int, init: str = "henaff", complex: bool = False, dynamic: bool = False) -> None:
        super().__init__(size, init, complex, dynamic)

    def _of(self, A: Tensor) -> Tensor:
        return skew_exponential(A)

    def _skew_of(self, Q: Tensor) -> Tensor:
        return logarithm(Q)

    def _eigenvalues(self) -> Tensor | None:
        if self.dynamic:
            return None
        angles = self._frequencies()
        return torch.polar(torch.ones_like(angles), angles)


class Cayley(FromSkew):
    """`V = (I + A)^-1 (I - A) D`: scoRNN (Helfrich et al. 2018, Eq 2), or, complex, scuRNN (Maduranga et al. 2019).

    D is diagonal. Real: `negative` of its entries are -1, the rest 1, fixed; A has N (N - 1) / 2 parameters. Complex:
    its N phases are learned, beside the N^2 numbers of A.

    Args:
        size: rows and columns N.
        negative: how many entries of D are -1 (rho in the source), where V is real; N / 2 unless given. A dynamic base
            starts from D, by default from the identity: no step changes the sign of the determinant.
        init: "cayley", "henaff", "identity", "glorot" (of A), or "random" (uniform over the group).
        complex: unitary instead of orthogonal.
        dynamic: take every step from where one stands: the update of Wisdom et al. 2016, Eq 6, with any optimiser.

    >>> round(torch.linalg.det(Cayley(4, negative=1)()).item())
    -1

    """

    def __init__(
        self,
        size: int,
        negative: int | None = None,
        init: str = "cayley",
        complex: bool = False,
        dynamic: bool = False,
    ) -> None:
        if negative is not None and complex:
            raise ValueError("negative is for a real matrix: a complex one learns the phases of D.")
        if negative is None:
            negative = 0 if complex or dynamic else size // 2
        if not 0 <= negative <= size:
            raise ValueError(f"D has {size} entries, of which {negative} cannot be -1; choose negative in 0..{size}.")
        self._negative = negative
        super().__init__(size, init, complex, dynamic)

    signs: Tensor

    @property
    def _learns_phases(self) -> bool:
        return self.complex and not self.dynamic

    def _at_start(self, init: str) -> Tensor:
        # here and not in the constructor, since the base may be formed there
        if self._learns_phases:
            self.phases = nn.Parameter(torch.empty(self.size).uniform_(0, 2 * pi))
        else:
            signs = torch.ones(self.size)
            signs[self.size - self._negative :] = -1
            self.register_buffer("signs", signs)
        return super()._at_start(init)

    def _of(self, A: Tensor) -> Tensor:
        eye = torch.eye(self.size, dtype=A.dtype, device=A.device)
        V = remove_rounding(torch.linalg.solve(eye + A, eye - A))
        if self._learns_phases:
            return V * torch.polar(torch.ones_like(self.phases), self.phases)
        return V if self.dynamic else V * self.signs

    def _first_base(self) -> Tensor:
        return super()._first_base() * self.signs

    def _skew_of(self, Q: Tensor) -> Tensor:
        """Of a matrix that is uniform over its component of the group: so is Q D with Q, for any fixed D."""
        eye = torch.eye(self.size, dtype=Q.dtype)
        return torch.linalg.solve(eye + Q, eye - Q)

    def _eigenvalues(self) -> Tensor | None:
        if self._learns_phases or self.dynamic or (self.signs < 0).any():
            return None
        angles = -2 * self._frequencies().atan()
        return torch.polar(torch.ones_like(angles), angles)
