"""Variable binding: which variable is held in which direction at which time."""

from mnemoscope.analysis.binding.angles import AngleError, angle_error
from mnemoscope.analysis.binding.basis import MemoryBasis

__all__ = ["AngleError", "MemoryBasis", "angle_error"]
