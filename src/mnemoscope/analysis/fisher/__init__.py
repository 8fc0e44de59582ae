"""Fisher memory: how much of the past a linear network holds under noise."""

from mnemoscope.analysis.fisher.matrix_system import MatrixSystem
from mnemoscope.analysis.fisher.memory import FisherMemory, fisher_memory

__all__ = ["FisherMemory", "MatrixSystem", "fisher_memory"]
