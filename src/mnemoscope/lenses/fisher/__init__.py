"""Fisher memory: how much information about past signals a network holds under noise."""

from mnemoscope.lenses.fisher.lens import fisher_memory as fisher_memory
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem as MatrixSystem
from mnemoscope.lenses.fisher.result import FisherMemory as FisherMemory
