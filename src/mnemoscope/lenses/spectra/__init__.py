"""Eigenvalues, Schur form, departure from normality, growth of powers and pseudospectra of recurrent matrices."""

from mnemoscope.lenses.spectra.lens import spectrum as spectrum
from mnemoscope.lenses.spectra.powers import Growth as Growth
from mnemoscope.lenses.spectra.pseudospectra import Pseudospectrum as Pseudospectrum
from mnemoscope.lenses.spectra.result import Spectrum as Spectrum
from mnemoscope.lenses.spectra.schur import (
    SchurForm as SchurForm,
    SubDiagonals as SubDiagonals,
    schur_form as schur_form,
)
