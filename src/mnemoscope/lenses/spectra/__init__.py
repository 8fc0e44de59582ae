"""Eigenvalues, Schur form, departure from normality, transient growth and pseudospectra of recurrent matrices."""

from mnemoscope.lenses.spectra.growth import Growth
from mnemoscope.lenses.spectra.lens import Spectrum, spectrum
from mnemoscope.lenses.spectra.pseudospectra import Pseudospectrum
from mnemoscope.lenses.spectra.schur import SchurForm, SubDiagonals, schur_form
from mnemoscope.lenses.spectra.transient_growth import Transients, transients

__all__ = [
    "Growth",
    "Pseudospectrum",
    "SchurForm",
    "Spectrum",
    "SubDiagonals",
    "Transients",
    "schur_form",
    "spectrum",
    "transients",
]
