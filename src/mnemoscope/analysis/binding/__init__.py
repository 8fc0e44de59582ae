"""Variable binding: which variable is held in which direction at which time."""

from mnemoscope.analysis.binding.angles import AngleError, angle_error
from mnemoscope.analysis.binding.basis import MemoryBasis
from mnemoscope.analysis.binding.planted import Planted, planted
from mnemoscope.analysis.binding.theory import BindingNetwork, BindingRun, largest_interference, variables_at

__all__ = [
    "AngleError",
    "BindingNetwork",
    "BindingRun",
    "MemoryBasis",
    "Planted",
    "angle_error",
    "largest_interference",
    "planted",
    "variables_at",
]
