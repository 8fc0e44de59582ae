"""Memory beyond fixed points: cycles, Lyapunov exponents, and where a network goes if it is left alone."""

from mnemoscope.analysis.attractors.cycle_search import find_cycles
from mnemoscope.analysis.attractors.cycles import Cycles

__all__ = ["Cycles", "find_cycles"]
