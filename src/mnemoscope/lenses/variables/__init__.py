"""Variable binding: which variable is held in which direction at which time."""

from mnemoscope.lenses.variables.angles import AngleError, angle_error
from mnemoscope.lenses.variables.basis import MemoryBasis
from mnemoscope.lenses.variables.causal import CausalTest
from mnemoscope.lenses.variables.extraction import find_variables
from mnemoscope.lenses.variables.memories import Variables
from mnemoscope.lenses.variables.planted import Planted, planted
from mnemoscope.lenses.variables.theory import BindingNetwork, BindingRun, largest_interference, variables_at

__all__ = [
    "AngleError",
    "BindingNetwork",
    "BindingRun",
    "CausalTest",
    "MemoryBasis",
    "Planted",
    "Variables",
    "angle_error",
    "find_variables",
    "largest_interference",
    "planted",
    "variables_at",
]
