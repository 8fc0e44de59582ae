"""The recurrent matrix as a module: unconstrained, of low rank, orthogonal, unitary, normal, or in Schur form."""

from mnemoscope.connectivity.connectivity import (
    Connectivity as Connectivity,
    KnownSpectrum as KnownSpectrum,
    attach_matrices as attach_matrices,
)
from mnemoscope.connectivity.dense import INITIALISERS as INITIALISERS, Dense as Dense, initialise as initialise
from mnemoscope.connectivity.fourier import Fourier as Fourier
from mnemoscope.connectivity.givens import Givens as Givens
from mnemoscope.connectivity.householder import Householder as Householder
from mnemoscope.connectivity.loadings import LoadingMixture as LoadingMixture, Loadings as Loadings
from mnemoscope.connectivity.low_rank import LowRank as LowRank
from mnemoscope.connectivity.matrix_exponential import skew_exponential as skew_exponential
from mnemoscope.connectivity.parametrisations import ORTHOGONAL as ORTHOGONAL, orthogonal as orthogonal
from mnemoscope.connectivity.schur import Normal as Normal, Schur as Schur
from mnemoscope.connectivity.signed_selection import (
    Cycle as Cycle,
    SignedSelection as SignedSelection,
    companion as companion,
    parse_selection as parse_selection,
)
from mnemoscope.connectivity.svd import SVD as SVD
from mnemoscope.connectivity.unitary import Cayley as Cayley, Exponential as Exponential, Unitary as Unitary
