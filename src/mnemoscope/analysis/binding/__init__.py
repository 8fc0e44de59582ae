"""Variable binding: which variable is held in which direction at which time."""

from mnemoscope.analysis.binding.angles import AngleError, angle_error
from mnemoscope.analysis.binding.basis import MemoryBasis
from mnemoscope.analysis.binding.causal import CausalTest
from mnemoscope.analysis.binding.extraction import variable_memories
from mnemoscope.analysis.binding.memories import VariableMemories
from mnemoscope.analysis.binding.planted import Planted, planted

__all__ = [
    "AngleError",
    "CausalTest",
    "MemoryBasis",
    "Planted",
    "VariableMemories",
    "angle_error",
    "planted",
    "variable_memories",
]
