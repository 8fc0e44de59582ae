"""Variable binding: which variable is held in which direction at which time."""

from mnemoscope.lenses.variables.angles import AngleError, angle_error
from mnemoscope.lenses.variables.basis import MemoryBasis
from mnemoscope.lenses.variables.causal import CausalTest
from mnemoscope.lenses.variables.extraction import variable_memories
from mnemoscope.lenses.variables.memories import VariableMemories
from mnemoscope.lenses.variables.planted import Planted, planted
from mnemoscope.lenses.variables.theory import BindingNetwork, BindingRun, largest_interference, variables_at

__all__ = [
    "AngleError",
    "BindingNetwork",
    "BindingRun",
    "CausalTest",
    "MemoryBasis",
    "Planted",
    "VariableMemories",
    "angle_error",
    "largest_interference",
    "planted",
    "variable_memories",
    "variables_at",
]
