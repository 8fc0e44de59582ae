"""Every named architecture as a short factory with its published defaults: `ms.networks.nnrnn(10, 128)`."""

from mnemoscope.networks.attentive import memlstm, memrnn, relgru, rellstm, relrnn, sab
from mnemoscope.networks.matrix import matrix_gru, matrix_lstm, matrix_rnn, queue, stacked_matrix_rnn
from mnemoscope.networks.recurrent import (
    episodic,
    eurnn,
    exprnn,
    full_urnn,
    goru,
    irnn,
    matched_size,
    nnrnn,
    normal_rnn,
    ornn,
    rnn,
    rnn_orth,
    scornn,
    scurnn,
    svd_rnn,
    urnn,
)
from mnemoscope.networks.relational import relational_model
from mnemoscope.networks.tape import matntm, ntm

__all__ = [
    "episodic",
    "eurnn",
    "exprnn",
    "full_urnn",
    "goru",
    "irnn",
    "matched_size",
    "matntm",
    "matrix_gru",
    "matrix_lstm",
    "matrix_rnn",
    "memlstm",
    "memrnn",
    "nnrnn",
    "normal_rnn",
    "ntm",
    "ornn",
    "queue",
    "relational_model",
    "relgru",
    "rellstm",
    "relrnn",
    "rnn",
    "rnn_orth",
    "sab",
    "scornn",
    "scurnn",
    "stacked_matrix_rnn",
    "svd_rnn",
    "urnn",
]
