"""The spectra lens: what the eigenvalues of a matrix say of its memory, and what they hide."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float, Inexact
from mnemoscope.lenses.spectra.growth import Growth, growth
from mnemoscope.lenses.spectra.kreiss import ROUNDING, kreiss_constant
from mnemoscope.lenses.spectra.pseudospectra import Pseudospectrum, pseudospectrum
from mnemoscope.lenses.spectra.schur import SchurForm, complex_triangle, schur_form
from mnemoscope.lenses.storage import load_result, save_result
from mnemoscope.lenses.systems import System, matrix_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIMIT = 256
"""Steps after which the search for the largest power of a 256 x 256 matrix gives up; smaller ones are followed for
longer in the same time.
"""
DIRECTIONS = 32
"""Directions in which half the numerical range is measured before its farthest point is sought."""


@dataclass(frozen=True)
class Spectrum:
    """A matrix by its eigenvalues, its singular values and what lies between: how far it is from being normal.

    Of a normal matrix (an orthogonal one, say) eigenvalues tell everything: |A^t| = max |lambda|^t. Of any other,
    states may grow for a while though every eigenvalue decays.

    >>> import mnemoscope as ms
    >>> line = ms.spectrum(torch.diag(torch.full((9,), 2.0), -1))  # a delay line that doubles what it passes on
    >>> line.radius, line.amplification, line.growth_until_settled.time
    (0.0, 512.0, 9.0)
    """

    matrix: Inexact[Tensor, "size size"]
    schur: SchurForm
    """`A = P (Lambda + T) P^*`, eigenvalues in falling order of modulus: what turns, and what feeds forward."""
    singular_values: Float[Tensor, " size"]
    continuous: bool = False
    """Whether the matrix generates a flow, dx/dt = A x, and not a map."""
    rounding: float = torch.finfo(torch.float64).eps
    """Of the entries as they were given: a matrix that is orthogonal but for that is not said to grow."""

    def __len__(self) -> int:
        return self.matrix.shape[0]

    @property
    def eigenvalues(self) -> Complex[Tensor, " size"]:
        """In falling order of modulus."""
        return self.schur.eigenvalues

    @property
    def radius(self) -> float:
        """Spectral radius, max |lambda|."""
        return float(self.eigenvalues.abs().max())

    @property
    def abscissa(self) -> float:
        """Spectral abscissa, max Re lambda."""
        return float(self.eigenvalues.real.max())

    @property
    def norm(self) -> float:
        """|A|, the largest singular value."""
        return float(self.singular_values[0])

    @property
    def departure(self) -> float:
        """Henrici's departure from normality, sqrt(|A|_F^2 - sum |lambda|^2); 0 for a normal matrix."""
        return self.schur.departure

    @property
    def relative_departure(self) -> float:
        """The departure from normality as a share of |A|_F: 0 for a normal, 1 for a nilpotent matrix."""
        size = float(torch.linalg.matrix_norm(self.matrix))
        return self.departure / size if size else 0.0

    @cached_property
    def numerical_abscissa(self) -> float:
        """Largest Re x^* A x over unit vectors, the initial growth of a flow: d/dt |exp(t A)| at t = 0."""
        return float(torch.linalg.eigvalsh((self.matrix + self.matrix.mH) / 2)[-1])

    @cached_property
    def numerical_radius(self) -> float:
        """Largest |x^* A x| over unit vectors, r. It bounds the powers, |A^t| <= 2 r^t, and |A| / 2 <= r <= |A|.

        The largest eigenvalue of Re(e^(i phi) A) is taken in even directions phi, and the best one improved: with its
        eigenvector x, the direction of x^* A x is a better one. At worst 0.12 % too small, usually by less than 1e-9.
        """
        A = self.matrix.numpy()
        turns = np.linspace(0, np.pi, DIRECTIONS + 1) if not np.iscomplexobj(A) else _even_turns()
        phi = max(turns, key=lambda turn: float(_top(A, turn, eigvals_only=True)[0]))
        best = 0.0
        for _ in range(100):
            (reach,), x = _top(A, phi)
            if reach <= best * (1 + 1e-10):
                break
            best, phi = float(reach), -float(np.angle(np.vdot(x, A @ x)))
        return best

    @property
    def contracts(self) -> bool:
        """Whether no state ever grows, not for a single step: |A| <= 1 of a map, numerical abscissa <= 0 of a flow."""
        if self.continuous:
            return self.numerical_abscissa <= self.slack * self.norm
        return self.norm <= 1 + self.slack

    @property
    def slack(self) -> float:
        """What rounding may have added to singular values, as a share of |A|."""
        return 10 * len(self) ** 0.5 * self.rounding

    @property
    def unbounded(self) -> bool:
        """Whether powers grow without bound: an eigenvalue is unstable, or one on the boundary is defective."""
        beyond = self.abscissa / max(self.norm, 1e-300) if self.continuous else self.radius - 1
        edge = max(ROUNDING, self.slack)
        return beyond > edge or (beyond >= -edge and self.kreiss == float("inf"))

    @cached_property
    def kreiss(self) -> float:
        """The Kreiss constant K, with 1 <= K <= amplification <= e N K; infinite where the powers are not bounded.

        See `kreiss_constant` of `mnemoscope.lenses.spectra.kreiss` for how it is sought.
        """
        if self.contracts:
            return 1.0
        real, edge = not self.matrix.is_complex(), max(ROUNDING, self.slack)
        return kreiss_constant(self.triangle, self.norm, real=real, continuous=self.continuous, rounding=edge)

    @property
    def amplification(self) -> float:
        """Transient amplification, max_t |A^t| (of a flow |exp(t A)|); infinite where the powers are not bounded.

        Where `growth_until_settled.settled` is False, it is a lower bound: what was reached until then, or the Kreiss
        constant, where that is larger.
        """
        if self.unbounded:
            return float("inf")
        followed = self.growth_until_settled
        return followed.peak if followed.settled else max(followed.peak, self.kreiss)

    @cached_property
    def growth_until_settled(self) -> Growth:
        """Norms of the powers until their maximum is certain, or for as long as `LIMIT` allows."""
        steps = max(16, LIMIT * 256 // max(len(self), 8))
        return growth(self.matrix, steps, continuous=self.continuous, slack=self.slack, until_settled=True)

    def growth(self, steps: int = 100) -> Growth:
        """Norms of A^0 ... A^steps (of a flow, of exp(t A) at as many times); fewer where they exceed 1e150."""
        return growth(self.matrix, steps, continuous=self.continuous, slack=self.slack)

    def pseudospectrum(
        self, resolution: int = 60, box: tuple[float, float, float, float] | None = None
    ) -> Pseudospectrum:
        """sigma_min(z - A) on a grid of the complex plane.

        Args:
            resolution: points along each side.
            box: (least Re, largest Re, least Im, largest Im); by default around the eigenvalues and, of a map, the unit
                circle.

        """
        return pseudospectrum(self.triangle, resolution, self._box() if box is None else box, not self._complex)

    @cached_property
    def triangle(self) -> np.ndarray:
        """The matrix in complex upper triangular form, up to a unitary change of basis and transposition."""
        return complex_triangle(self.schur)

    def summary(self) -> str:
        """The result in words."""
        return " ".join(_sentences(self))

    def __repr__(self) -> str:
        return f"Spectrum({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `Spectrum.load` reads it back."""
        tensors = {"matrix": self.matrix, "singular_values": self.singular_values}
        tensors |= {"P": self.schur.P, "Lambda": self.schur.Lambda, "T": self.schur.T}
        save_result(path, "Spectrum", tensors, {"continuous": self.continuous, "rounding": self.rounding})

    @classmethod
    def load(cls, path: str | Path) -> Spectrum:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "Spectrum", "a spectrum")
        form = SchurForm(tensors["P"], tensors["Lambda"], tensors["T"])
        return cls(tensors["matrix"], form, tensors["singular_values"], **flags)

    def figure(self) -> Figure:
        """Plane, growth, singular values, Schur form, angles and sub-diagonals (needs the `report` extra)."""
        from mnemoscope.lenses.spectra.figure import draw_spectrum

        return draw_spectrum(self)

    @property
    def _complex(self) -> bool:
        return self.matrix.is_complex()

    def _box(self) -> tuple[float, float, float, float]:
        return _around(self.eigenvalues, self.continuous)


def spectrum(system: System, state: Float[Tensor, " ..."] | None = None) -> Spectrum:
    """Look at a matrix, or at the matrix of a system.

    Args:
        system: a square matrix, real or complex; a `Connectivity`; an `Elman` cell or torch.nn.RNN of one layer (its
            recurrent matrix V); a `Dynamics` (its Jacobian at `state`); or one fixed point, `fp[0]` (its Jacobian).
        state: where a `Dynamics` is linearised, (size,).

    >>> import mnemoscope as ms
    >>> ms.spectrum(torch.nn.RNN(2, 5)).eigenvalues.shape
    torch.Size([5])

    """
    given, continuous = matrix_of(system, state)
    matrix = given.to(torch.complex128 if given.is_complex() else torch.float64, copy=True)  # the user's may change
    rounding = float(torch.finfo(given.dtype).eps)
    return Spectrum(matrix, schur_form(matrix), torch.linalg.svdvals(matrix), continuous, rounding)


def _top(A: np.ndarray, phi: float, *, eigvals_only: bool = False) -> Any:
    """Largest eigenvalue, in an array, and eigenvector of the Hermitian part of e^(i phi) A."""
    turned = np.exp(1j * phi) * A
    last = len(A) - 1
    half = (turned + turned.conj().T) / 2
    return scipy.linalg.eigh(half, subset_by_index=[last, last], eigvals_only=eigvals_only, check_finite=False)


def _even_turns() -> np.ndarray:
    return np.linspace(-np.pi, np.pi, 2 * DIRECTIONS, endpoint=False)


def _around(eigenvalues: Tensor, continuous: bool) -> tuple[float, float, float, float]:
    if not continuous:
        reach = 1.3 * max(1.0, float(eigenvalues.abs().max()))
        return -reach, reach, -reach, reach
    low, high = float(eigenvalues.real.min()), max(0.0, float(eigenvalues.real.max()))
    side = float(eigenvalues.imag.abs().max())
    margin = 0.3 * max(high - low, 2 * side, 1e-3)
    return low - margin, high + margin, -side - margin, side + margin


def _sentences(seen: Spectrum) -> list[str]:
    size = f"{len(seen)} x {len(seen)}"
    leading = f"Re λ at most {seen.abscissa:.4g}" if seen.continuous else f"|λ| at most {seen.radius:.4g}"
    said = [f"A {size} matrix: {leading}, singular values up to {seen.norm:.4g}."]
    normal = seen.relative_departure <= 10 * seen.slack
    said.append(
        "It is normal."
        if normal
        else f"Its departure from normality is {seen.departure:.4g}, {seen.relative_departure:.1%} of its norm."
    )
    said.append(_fate(seen))
    return said


def _fate(seen: Spectrum) -> str:
    unit = "t =" if seen.continuous else "step"
    if seen.contracts:
        return "No state ever grows."
    if seen.unbounded:
        return "States grow without bound."
    followed = seen.growth_until_settled
    if followed.settled:
        fate = f"grow up to {followed.peak:.4g} times, at {unit} {followed.time:.4g}, and then decay"
    else:
        last = f"{unit} {float(followed.times[-1]):.4g}"
        fate = f"grow {followed.peak:.4g} times until {last}, as far as followed, and {seen.amplification:.4g} at least"
    return f"States {fate}; Kreiss constant {seen.kreiss:.4g}."
