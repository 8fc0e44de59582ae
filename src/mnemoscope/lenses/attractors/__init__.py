"""Memory beyond fixed points: cycles, Lyapunov exponents, and where a network goes if it is left alone."""

from mnemoscope.lenses.attractors.cycle_search import find_cycles
from mnemoscope.lenses.attractors.cycles import Cycles
from mnemoscope.lenses.attractors.exponents import lyapunov_spectrum
from mnemoscope.lenses.attractors.lyapunov import LyapunovSpectrum
from mnemoscope.lenses.attractors.settling import find_attractors
from mnemoscope.lenses.attractors.verdict import Attractors, Kind

__all__ = ["Attractors", "Cycles", "Kind", "LyapunovSpectrum", "find_attractors", "find_cycles", "lyapunov_spectrum"]
