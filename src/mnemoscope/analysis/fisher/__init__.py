"""Fisher memory: how much of the past a linear network holds under noise."""

from mnemoscope.analysis.fisher.design import Design, design_memory
from mnemoscope.analysis.fisher.matrix_system import MatrixSystem
from mnemoscope.analysis.fisher.memory import FisherMemory, fisher_memory

__all__ = ["Design", "FisherMemory", "MatrixSystem", "design_memory", "fisher_memory"]
