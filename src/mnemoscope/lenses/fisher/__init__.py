"""Fisher memory: how much of the past a linear network holds under noise."""

from mnemoscope.lenses.fisher.capacity import MemoryCapacity, memory_capacity
from mnemoscope.lenses.fisher.design import MemoryDesign, design_memory
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem
from mnemoscope.lenses.fisher.measured import measure_memory_capacity
from mnemoscope.lenses.fisher.memory import FisherMemory, fisher_memory
from mnemoscope.lenses.fisher.trajectory import TrajectoryMemory, fisher_along

__all__ = [
    "FisherMemory",
    "MatrixSystem",
    "MemoryCapacity",
    "MemoryDesign",
    "TrajectoryMemory",
    "design_memory",
    "fisher_along",
    "fisher_memory",
    "measure_memory_capacity",
    "memory_capacity",
]
