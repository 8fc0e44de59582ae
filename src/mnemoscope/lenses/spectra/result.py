"""The result of the spectra lens: a matrix by its eigenvalues, its singular values and its departure from normality."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float, Inexact
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.spectra.kreiss import ROUNDING, kreiss_constant
from mnemoscope.lenses.spectra.powers import Growth, numerical_radius, power_norms
from mnemoscope.lenses.spectra.pseudospectra import Box, Pseudospectrum, box_around, pseudospectrum
from mnemoscope.lenses.spectra.schur import SchurForm, complex_triangle

LIMIT = 256
"""Number of steps after which the search for the largest power of a 256 x 256 matrix gives up; smaller matrices take
more steps in the same time."""


@dataclass(frozen=True, repr=False)
class Spectrum(Result):
    """A matrix by its eigenvalues, its singular values and its departure from normality.

    The eigenvalues of a normal matrix (an orthogonal one, say) determine the growth of states: |A^t| = max |lambda|^t.
    For any other matrix states may grow for a while although every eigenvalue decays.

    >>> import mnemoscope as ms
    >>> line = ms.spectrum(torch.diag(torch.full((9,), 2.0), -1))  # a delay line that doubles its signal at each step
    >>> line.radius, line.amplification, line.growth_until_settled.time
    (0.0, 512.0, 9.0)
    """

    noun: ClassVar[str] = "a spectrum"
    drawn_by: ClassVar[str] = "draw_spectrum"
    former_fields: ClassVar[dict[str, str]] = {name: f"schur.{name}" for name in ("P", "Lambda", "T")}

    matrix: Inexact[Tensor, "size size"]
    schur: SchurForm
    """`A = P (Lambda + T) P^*`, eigenvalues in descending order of modulus: Lambda rotates, T feeds forward."""
    singular_values: Float[Tensor, " size"]
    continuous: bool = False
    """Whether the matrix generates a flow, dx/dt = A x, instead of a map."""
    rounding: float = torch.finfo(torch.float64).eps
    """Relative rounding error of the given entries. A matrix that is orthogonal up to this error counts as such."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.matrix.shape[0]

    @property
    def eigenvalues(self) -> Complex[Tensor, " size"]:
        """Eigenvalues in descending order of modulus."""
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
        """Largest Re x^* A x over unit vectors, the initial growth rate of a flow: d/dt |exp(t A)| at t = 0."""
        return float(torch.linalg.eigvalsh((self.matrix + self.matrix.mH) / 2)[-1])

    @cached_property
    def numerical_radius(self) -> float:
        """Largest |x^* A x| over unit vectors, r. It bounds the powers, |A^t| <= 2 r^t, and |A| / 2 <= r <= |A|."""
        return numerical_radius(self.matrix.numpy())

    @property
    def contracts(self) -> bool:
        """Whether no state ever grows in one step: |A| <= 1 for a map, numerical abscissa <= 0 for a flow."""
        if self.continuous:
            return self.numerical_abscissa <= self.slack * self.norm
        return self.norm <= 1 + self.slack

    @property
    def slack(self) -> float:
        """Possible rounding error of the singular values, as a share of |A|."""
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

        `kreiss_constant` of `mnemoscope.lenses.spectra.kreiss` describes the search.
        """
        if self.contracts:
            return 1.0
        real, edge = not self.matrix.is_complex(), max(ROUNDING, self.slack)
        return kreiss_constant(self.triangle, self.norm, real=real, continuous=self.continuous, rounding=edge)

    @property
    def amplification(self) -> float:
        """Transient amplification, max_t |A^t| (for a flow |exp(t A)|); infinite where the powers are not bounded.

        It is a lower bound where `growth_until_settled.settled` is False: the largest computed norm or the
        Kreiss constant, whichever is larger.
        """
        if self.unbounded:
            return float("inf")
        growth = self.growth_until_settled
        return growth.peak if growth.settled else max(growth.peak, self.kreiss)

    @cached_property
    def growth_until_settled(self) -> Growth:
        """Norms of the powers until their maximum is certain, or for as many steps as `LIMIT` allows."""
        steps = max(16, LIMIT * 256 // max(len(self), 8))
        return power_norms(self.matrix, steps, continuous=self.continuous, slack=self.slack, until_settled=True)

    def growth(self, steps: int = 100) -> Growth:
        """Return the norms of A^0 ... A^steps (for a flow, of exp(t A) at as many times), or fewer beyond 1e150."""
        return power_norms(self.matrix, steps, continuous=self.continuous, slack=self.slack)

    def pseudospectrum(self, resolution: int = 60, box: Box | None = None) -> Pseudospectrum:
        """Compute sigma_min(z - A) on a grid of the complex plane.

        Args:
            resolution: points along each side.
            box: (least Re, largest Re, least Im, largest Im); by default around the eigenvalues and, for a map, the
                unit circle.

        """
        box = box_around(self.eigenvalues, self.continuous) if box is None else box
        return pseudospectrum(self.triangle, resolution, box, not self.matrix.is_complex())

    @cached_property
    def triangle(self) -> np.ndarray:
        """The matrix in complex upper triangular form, up to a unitary change of basis and transposition."""
        return complex_triangle(self.schur)

    def summary(self) -> str:
        """Return the eigenvalues, the departure from normality and the growth of states, in sentences."""
        size = len(self)
        leading = f"Re λ at most {self.abscissa:.4g}" if self.continuous else f"|λ| at most {self.radius:.4g}"
        normality = (
            "It is normal."
            if self.relative_departure <= 10 * self.slack
            else f"Its departure from normality is {self.departure:.4g}, {self.relative_departure:.1%} of its norm."
        )
        matrix = f"A {size} x {size} matrix: {leading}, singular values up to {self.norm:.4g}."
        return f"{matrix} {normality} {_growth_sentence(self)}"


def _growth_sentence(spectrum: Spectrum) -> str:
    unit = "t =" if spectrum.continuous else "step"
    if spectrum.contracts:
        return "No state ever grows."
    if spectrum.unbounded:
        return "States grow without bound."
    growth = spectrum.growth_until_settled
    if growth.settled:
        fate = f"grow up to {growth.peak:.4g} times, at {unit} {growth.time:.4g}, and then decay"
    else:
        fate = (
            f"grow {growth.peak:.4g} times until {unit} {float(growth.times[-1]):.4g}, where the computation ends, and "
            f"at least {spectrum.amplification:.4g} times in all"
        )
    return f"States {fate}; the Kreiss constant is {spectrum.kreiss:.4g}."
