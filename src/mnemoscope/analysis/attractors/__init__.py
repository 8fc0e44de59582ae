"""Memory beyond fixed points: cycles, Lyapunov exponents, and where a network goes if it is left alone."""

from mnemoscope.analysis.attractors.cycle_search import find_cycles
from mnemoscope.analysis.attractors.cycles import Cycles
from mnemoscope.analysis.attractors.exponents import lyapunov_spectrum
from mnemoscope.analysis.attractors.lyapunov import LyapunovSpectrum
from mnemoscope.analysis.attractors.settling import attractors
from mnemoscope.analysis.attractors.verdict import Attractors, Kind

__all__ = ["Attractors", "Cycles", "Kind", "LyapunovSpectrum", "attractors", "find_cycles", "lyapunov_spectrum"]
