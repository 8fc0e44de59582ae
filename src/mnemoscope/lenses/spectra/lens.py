"""The spectra lens: what the eigenvalues of a matrix reveal about its memory, and what they hide."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import show_slow
from mnemoscope.lenses.spectra.result import Spectrum
from mnemoscope.lenses.spectra.schur import schur_form
from mnemoscope.lenses.systems import System, matrix_of


@show_slow("spectrum")
def spectrum(system: System, state: Float[Tensor, " ..."] | None = None) -> Spectrum:
    """Compute the spectrum of a matrix, or of the matrix of a system.

    Args:
        system: a square matrix, real or complex; a `Connectivity`; an `Elman` cell or torch.nn.RNN of one layer (its
            recurrent matrix V); a `Dynamics` or any network (its Jacobian at `state`); or one fixed point, `fp[0]` (its
            Jacobian).
        state: the state (size,) at which a `Dynamics` or a network without input is linearised.

    >>> import mnemoscope as ms
    >>> ms.spectrum(torch.nn.RNN(2, 5)).eigenvalues.shape
    torch.Size([5])

    """
    given, continuous = matrix_of(system, state)
    matrix = given.to(torch.complex128 if given.is_complex() else torch.float64, copy=True)  # the caller may change it
    rounding = float(torch.finfo(given.dtype).eps)
    return Spectrum(matrix, schur_form(matrix), torch.linalg.svdvals(matrix), continuous, rounding)
