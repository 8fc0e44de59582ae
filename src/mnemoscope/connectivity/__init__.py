"""The recurrent matrix as a module."""

from mnemoscope.connectivity.connectivity import Claim, Connectivity
from mnemoscope.connectivity.dense import Dense
from mnemoscope.connectivity.exponential import skew_exponential
from mnemoscope.connectivity.factory import Cycle, SignedSelection, companion, selection
from mnemoscope.connectivity.fourier import Fourier
from mnemoscope.connectivity.initialisers import INITIALISERS, initialise
from mnemoscope.connectivity.kinds import ORTHOGONAL, orthogonal
from mnemoscope.connectivity.normal import Normal
from mnemoscope.connectivity.reflections import Householder
from mnemoscope.connectivity.rotations import Givens
from mnemoscope.connectivity.schur import Schur
from mnemoscope.connectivity.singular import Singular
from mnemoscope.connectivity.unitary import Cayley, Exponential, Unitary

__all__ = [
    "INITIALISERS",
    "ORTHOGONAL",
    "Cayley",
    "Claim",
    "Connectivity",
    "Cycle",
    "Dense",
    "Exponential",
    "Fourier",
    "Givens",
    "Householder",
    "Normal",
    "Schur",
    "SignedSelection",
    "Singular",
    "Unitary",
    "companion",
    "initialise",
    "orthogonal",
    "selection",
    "skew_exponential",
]
