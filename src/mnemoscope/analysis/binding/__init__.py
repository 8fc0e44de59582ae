"""Variable binding: which variable is held in which direction at which time."""

from mnemoscope.analysis.binding.angles import AngleError, angle_error
from mnemoscope.analysis.binding.basis import MemoryBasis
from mnemoscope.analysis.binding.causal import CausalTest
from mnemoscope.analysis.binding.extraction import variable_memories
from mnemoscope.analysis.binding.memories import VariableMemories
from mnemoscope.analysis.binding.planted import Planted, planted
from mnemoscope.analysis.binding.theory import BindingNetwork, BindingRun, largest_interference, variables_at

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
