"""Memory beyond fixed points: cycles, Lyapunov exponents, and the attractors that a network settles to."""

from mnemoscope.lenses.attractors.cycles import find_cycles as find_cycles
from mnemoscope.lenses.attractors.cycles_result import Cycles as Cycles
from mnemoscope.lenses.attractors.lens import find_attractors as find_attractors
from mnemoscope.lenses.attractors.lyapunov import lyapunov_spectrum as lyapunov_spectrum
from mnemoscope.lenses.attractors.lyapunov_result import LyapunovSpectrum as LyapunovSpectrum
from mnemoscope.lenses.attractors.result import Attractors as Attractors, Kind as Kind
