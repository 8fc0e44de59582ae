"""The recurrent matrix as a module."""

from mnemoscope.connectivity.dense import Connectivity, Dense
from mnemoscope.connectivity.initialisers import INITIALISERS, initialise

__all__ = ["INITIALISERS", "Connectivity", "Dense", "initialise"]
