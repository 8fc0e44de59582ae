"""Cells whose states are matrices (Do et al. 2017; Renanse et al. 2021)."""

from mnemoscope.cells.matrix.bilinear import (
    Bilinear as Bilinear,
    MatrixInputs as MatrixInputs,
    nearest_square as nearest_square,
)
from mnemoscope.cells.matrix.gated import MatrixGRU as MatrixGRU, MatrixLSTM as MatrixLSTM
from mnemoscope.cells.matrix.layers import MatrixLayers as MatrixLayers, stack_matrix_rnns as stack_matrix_rnns
from mnemoscope.cells.matrix.queue import QueueMemory as QueueMemory, QueueState as QueueState
from mnemoscope.cells.matrix.rnn import Kronecker as Kronecker, MatrixRNN as MatrixRNN
from mnemoscope.cells.matrix.transition import DeepTransition as DeepTransition
