"""Orthogonal and unitary matrices, parametrised by a skew matrix: matrix exponential and Cayley transform."""

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
    """Base class of orthogonal and unitary matrices, which preserve the norm of every vector."""

    def spectrum(self) -> KnownSpectrum:
        """Return singular values of 1, and the eigenvalues where they are known."""
        return KnownSpectrum(self._eigenvalues(), torch.ones(self.size, dtype=self.dtype.to_real(), device=self.device))

    def orthogonal_parameters(self) -> Iterator[nn.Parameter]:
        return self.parameters()

    def _eigenvalues(self) -> Tensor | None:
        return None


class FromSkew(Unitary):
    """`V = f(A) B` for a skew A and a base B.

    B is the identity, unless the trivialisation is dynamic: then after every step of the optimiser B is set to V and A
    to 0, so that every step moves along the group from the current matrix (Lezcano-Casado 2019).
    """

    initialisers = (*SKEW_INITIALISERS, "random")
    """Values of `init`."""
    base: Tensor
    """B, as pairs of real numbers if V is complex."""

    def __init__(self, size: int, init: str, complex: bool, dynamic: bool) -> None:
        super().__init__(size)
        check_initialiser(init, self.initialisers, self)
        self.complex, self.dynamic = complex, dynamic
        self.skew = Skew(size, complex)
        self.skew.fill(self._initial_skew(init))
        if dynamic:
            base = self._initial_base()
            # as pairs of real numbers, since .double() ignores complex buffers
            self.register_buffer("base", torch.view_as_real(base) if complex else base)
            self.after_step()

    def forward(self) -> Inexact[Tensor, "n n"]:
        V = self._map(self.skew())
        if not self.dynamic:
            return V
        return V @ (torch.view_as_complex(self.base) if self.complex else self.base)

    def _apply(self, *args: Any, **options: Any) -> FromSkew:
        super()._apply(*args, **options)
        if self.dynamic and self.base.dtype == torch.float64:  # unitary in float32 is not unitary to float64 precision
            with torch.no_grad():
                base = torch.view_as_complex(self.base) if self.complex else self.base
                V = newton_schulz_step(base)
                self.base.copy_(torch.view_as_real(V) if self.complex else V)
        return self

    @torch.no_grad()
    def after_step(self) -> None:
        """Set the base of a dynamic trivialisation to the current matrix, and A to 0."""
        if self.dynamic:
            V = newton_schulz_step(self())  # otherwise rounding errors would accumulate
            self.base.copy_(torch.view_as_real(V) if self.complex else V)
            for parameter in self.skew.parameters():
                parameter.zero_()

    def _map(self, A: Tensor) -> Tensor:
        """Return `f(A)`."""
        raise NotImplementedError(f"{type(self).__name__} must define _map(A).")

    def _initial_base(self) -> Tensor:
        return torch.eye(self.size, dtype=self.dtype)

    def _initial_skew(self, init: str) -> Tensor:
        if init == "random":
            return self._inverse(random_unitary(self.size, self.complex))
        return SKEW_INITIALISERS[init](self.size, self.complex)

    def _inverse(self, Q: Tensor) -> Tensor:
        """Return an A with `f(A) = Q`."""
        raise NotImplementedError(f"{type(self).__name__} must define _inverse(Q).")

    def _frequencies(self) -> Float[Tensor, " size"]:
        """Return the imaginary parts of the eigenvalues of A, whose real parts are 0."""
        return torch.linalg.eigvalsh(-1j * self.skew())


class Exponential(FromSkew):
    """`V = exp(A)`: the rotations SO(N), or the unitary matrices U(N); N (N - 1) / 2 or N^2 parameters.

    It is the matrix of expRNN (Lezcano-Casado & Martinez-Rubio 2019), and if complex a unitary matrix of full capacity
    (Hyland & Raetsch 2017).

    Args:
        size: rows and columns N.
        init: "henaff", "cayley", "identity", "glorot" (of A), or "random" (uniform over the group).
        complex: whether the matrix is unitary instead of orthogonal.
        dynamic: whether to use a dynamic trivialisation with period 1 (Lezcano-Casado 2019).

    >>> V = Exponential(4)()
    >>> torch.allclose(V @ V.mT, torch.eye(4), atol=1e-6)
    True

    """

    def __init__(self, size: int, init: str = "henaff", complex: bool = False, dynamic: bool = False) -> None:
        super().__init__(size, init, complex, dynamic)

    def _map(self, A: Tensor) -> Tensor:
        return skew_exponential(A)

    def _inverse(self, Q: Tensor) -> Tensor:
        return logarithm(Q)

    def _eigenvalues(self) -> Tensor | None:
        if self.dynamic:
            return None
        angles = self._frequencies()
        return torch.polar(torch.ones_like(angles), angles)


class Cayley(FromSkew):
    """The scaled Cayley transform `V = (I + A)^-1 (I - A) D`.

    It is the matrix of scoRNN (Helfrich et al. 2018, Eq 2), and if complex that of scuRNN (Maduranga et al. 2019). D is
    diagonal. If V is real, `negative` entries of D are -1 and the others 1, all fixed, and A has N (N - 1) / 2
    parameters. If V is complex, the N phases of D are learned in addition to the N^2 parameters of A.

    Args:
        size: rows and columns N.
        negative: number of entries of D that are -1 (rho in the source), for a real V; N / 2 by default. With `dynamic`
            the base starts at D, by default the identity: no step changes the sign of the determinant.
        init: "cayley", "henaff", "identity", "glorot" (of A), or "random" (uniform over the group).
        complex: whether the matrix is unitary instead of orthogonal.
        dynamic: whether to step along the group from the current matrix: the update of Wisdom et al. 2016, Eq 6, with
            any optimiser.

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
            raise ValueError(f"D has {size} entries, but negative is {negative}; choose negative in 0..{size}.")
        self._negative = negative
        super().__init__(size, init, complex, dynamic)

    signs: Tensor

    @property
    def _learns_phases(self) -> bool:
        return self.complex and not self.dynamic

    def _initial_skew(self, init: str) -> Tensor:
        # D is created here, since the constructor of the base class already forms the matrix
        if self._learns_phases:
            self.phases = nn.Parameter(torch.empty(self.size).uniform_(0, 2 * pi))
        else:
            signs = torch.ones(self.size)
            signs[self.size - self._negative :] = -1
            self.register_buffer("signs", signs)
        return super()._initial_skew(init)

    def _map(self, A: Tensor) -> Tensor:
        eye = torch.eye(self.size, dtype=A.dtype, device=A.device)
        V = remove_rounding(torch.linalg.solve(eye + A, eye - A))
        if self._learns_phases:
            return V * torch.polar(torch.ones_like(self.phases), self.phases)
        return V if self.dynamic else V * self.signs

    def _initial_base(self) -> Tensor:
        return super()._initial_base() * self.signs

    def _inverse(self, Q: Tensor) -> Tensor:
        """Return A without regard to D: if Q is uniform over its component of the group, so is Q D for any fixed D."""
        eye = torch.eye(self.size, dtype=Q.dtype)
        return torch.linalg.solve(eye + Q, eye - Q)

    def _eigenvalues(self) -> Tensor | None:
        if self._learns_phases or self.dynamic or (self.signs < 0).any():
            return None
        angles = -2 * self._frequencies().atan()
        return torch.polar(torch.ones_like(angles), angles)
