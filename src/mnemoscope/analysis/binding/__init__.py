"""Variable binding: which variable is held in which direction at which time."""

from mnemoscope.analysis.binding.angles import AngleError, angle_error
from mnemoscope.analysis.binding.basis import MemoryBasis
from mnemoscope.analysis.binding.planted import Planted, planted

__all__ = ["AngleError", "MemoryBasis", "Planted", "angle_error", "planted"]
