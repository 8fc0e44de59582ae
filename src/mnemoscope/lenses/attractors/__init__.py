"""Memory beyond fixed points: cycles, Lyapunov exponents, and the attractors that a network settles to."""

from mnemoscope.lenses.attractors.cycles import find_cycles
from mnemoscope.lenses.attractors.cycles_result import Cycles
from mnemoscope.lenses.attractors.lens import find_attractors
from mnemoscope.lenses.attractors.lyapunov import lyapunov_spectrum
from mnemoscope.lenses.attractors.lyapunov_result import LyapunovSpectrum
from mnemoscope.lenses.attractors.result import Attractors, Kind

__all__ = ["Attractors", "Cycles", "Kind", "LyapunovSpectrum", "find_attractors", "find_cycles", "lyapunov_spectrum"]
