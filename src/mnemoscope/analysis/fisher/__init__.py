"""Fisher memory: how much of the past a linear network holds under noise."""

from mnemoscope.analysis.fisher.capacity import MemoryCapacity, memory_capacity
from mnemoscope.analysis.fisher.design import Design, design_memory
from mnemoscope.analysis.fisher.matrix_system import MatrixSystem
from mnemoscope.analysis.fisher.measured import measured_memory_capacity
from mnemoscope.analysis.fisher.memory import FisherMemory, fisher_memory
from mnemoscope.analysis.fisher.trajectory import TrajectoryMemory, fisher_along

__all__ = [
    "Design",
    "FisherMemory",
    "MatrixSystem",
    "MemoryCapacity",
    "TrajectoryMemory",
    "design_memory",
    "fisher_along",
    "fisher_memory",
    "measured_memory_capacity",
    "memory_capacity",
]
