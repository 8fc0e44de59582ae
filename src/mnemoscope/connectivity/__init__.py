"""The recurrent matrix as a module: unconstrained, orthogonal, unitary, normal, or in Schur form."""

from mnemoscope.connectivity.connectivity import Connectivity, KnownSpectrum
from mnemoscope.connectivity.dense import Dense
from mnemoscope.connectivity.fourier import Fourier
from mnemoscope.connectivity.givens import Givens
from mnemoscope.connectivity.householder import Householder
from mnemoscope.connectivity.initialisers import INITIALISERS, initialise
from mnemoscope.connectivity.matrix_exponential import skew_exponential
from mnemoscope.connectivity.normal import Normal
from mnemoscope.connectivity.parametrisations import ORTHOGONAL, orthogonal
from mnemoscope.connectivity.schur import Schur
from mnemoscope.connectivity.signed_selection import Cycle, SignedSelection, companion, parse_selection
from mnemoscope.connectivity.svd import SVD
from mnemoscope.connectivity.unitary import Cayley, Exponential, Unitary

__all__ = [
    "INITIALISERS",
    "ORTHOGONAL",
    "SVD",
    "Cayley",
    "Connectivity",
    "Cycle",
    "Dense",
    "Exponential",
    "Fourier",
    "Givens",
    "Householder",
    "KnownSpectrum",
    "Normal",
    "Schur",
    "SignedSelection",
    "Unitary",
    "companion",
    "initialise",
    "orthogonal",
    "parse_selection",
    "skew_exponential",
]
