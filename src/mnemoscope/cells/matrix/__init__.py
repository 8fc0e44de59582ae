"""Cells whose states are matrices (Do et al. 2017; Renanse et al. 2021), and two with key-value matrices."""

from mnemoscope.cells.matrix.bilinear import Bilinear, MatrixInputs, nearest_square
from mnemoscope.cells.matrix.deltanet import DeltaState, GatedDeltaNet
from mnemoscope.cells.matrix.gated import MatrixGRU, MatrixLSTM
from mnemoscope.cells.matrix.layers import MatrixLayers, stack_matrix_rnns
from mnemoscope.cells.matrix.mlstm import MLSTM, MLSTMState
from mnemoscope.cells.matrix.queue import QueueMemory, QueueState
from mnemoscope.cells.matrix.rnn import Kronecker, MatrixRNN
from mnemoscope.cells.matrix.transition import DeepTransition

__all__ = [
    "MLSTM",
    "Bilinear",
    "DeepTransition",
    "DeltaState",
    "GatedDeltaNet",
    "Kronecker",
    "MLSTMState",
    "MatrixGRU",
    "MatrixInputs",
    "MatrixLSTM",
    "MatrixLayers",
    "MatrixRNN",
    "QueueMemory",
    "QueueState",
    "nearest_square",
    "stack_matrix_rnns",
]
