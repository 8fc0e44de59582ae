"""Eigenvalues, Schur form, departure from normality, growth of powers and pseudospectra of recurrent matrices."""

from mnemoscope.lenses.spectra.lens import spectrum
from mnemoscope.lenses.spectra.powers import Growth
from mnemoscope.lenses.spectra.pseudospectra import Pseudospectrum
from mnemoscope.lenses.spectra.result import Spectrum
from mnemoscope.lenses.spectra.schur import SchurForm, SubDiagonals, schur_form

__all__ = ["Growth", "Pseudospectrum", "SchurForm", "Spectrum", "SubDiagonals", "schur_form", "spectrum"]
