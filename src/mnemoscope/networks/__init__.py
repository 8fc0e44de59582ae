"""Every named architecture as a factory with its published defaults: `ms.networks.nnrnn(10, 128)`.

Networks with a recurrent state take an input size and a hidden size, relational ones a task:

    cell = ms.networks.lstm(10, 128)
    model = ms.networks.corelnet(task)

A factory is the definition of an architecture: its parts and its published sizes and initialisation. The registry
(`registry/cell_entries.py`, `registry/network_entries.py`) gives it a name for the command line and for configuration
files, a description and its sources; a preset (`config/presets/`) trains one on a task.
"""

from mnemoscope.networks.attentive import (
    memlstm as memlstm,
    memrnn as memrnn,
    relgru as relgru,
    rellstm as rellstm,
    relrnn as relrnn,
    sab as sab,
)
from mnemoscope.networks.cell_classes import (
    deltanet as deltanet,
    deltaproduct as deltaproduct,
    diagonal_gru as diagonal_gru,
    diagonal_lstm as diagonal_lstm,
    echo_state as echo_state,
    elman as elman,
    gated_deltanet as gated_deltanet,
    gla as gla,
    gru as gru,
    h_detach as h_detach,
    hgrn2 as hgrn2,
    kda as kda,
    leaky_rnn as leaky_rnn,
    lru as lru,
    lstm as lstm,
    mamba as mamba,
    mamba2 as mamba2,
    mingru as mingru,
    minlstm as minlstm,
    mlstm as mlstm,
    retnet as retnet,
    rg_lru as rg_lru,
    rwkv7 as rwkv7,
    s4d as s4d,
    s5 as s5,
    slstm as slstm,
)
from mnemoscope.networks.layered import blocks as blocks, causal_transformer as causal_transformer
from mnemoscope.networks.leaky import low_rank as low_rank
from mnemoscope.networks.matrix import (
    matrix_gru as matrix_gru,
    matrix_lstm as matrix_lstm,
    matrix_rnn as matrix_rnn,
    matrix_stack as matrix_stack,
    queue as queue,
)
from mnemoscope.networks.recurrent import (
    episodic as episodic,
    eurnn as eurnn,
    exprnn as exprnn,
    full_urnn as full_urnn,
    goru as goru,
    irnn as irnn,
    nnrnn as nnrnn,
    normal_rnn as normal_rnn,
    ornn as ornn,
    rnn as rnn,
    rnn_orth as rnn_orth,
    scornn as scornn,
    scurnn as scurnn,
    svd_rnn as svd_rnn,
    urnn as urnn,
)
from mnemoscope.networks.relational import (
    abstractor as abstractor,
    corelnet as corelnet,
    corelnet_asymmetric as corelnet_asymmetric,
    corelnet_diff as corelnet_diff,
    corelnet_l1 as corelnet_l1,
    corelnet_mix as corelnet_mix,
    corelnet_multi as corelnet_multi,
    corelnet_nhid as corelnet_nhid,
    corelnet_printed as corelnet_printed,
    corelnet_random as corelnet_random,
    corelnet_recurrent as corelnet_recurrent,
    corelnet_sensory as corelnet_sensory,
    corelnet_t as corelnet_t,
    corelnet_t_asymmetric as corelnet_t_asymmetric,
    corelnet_t_random as corelnet_t_random,
    corelnet_t_sensory as corelnet_t_sensory,
    esbn as esbn,
    esbn_asymmetric as esbn_asymmetric,
    esbn_l1 as esbn_l1,
    esbn_random as esbn_random,
    esbn_sensory as esbn_sensory,
    mnm as mnm,
    ntm_extra_step as ntm_extra_step,
    predinet as predinet,
    relation_network as relation_network,
    relational_lstm as relational_lstm,
    relational_model as relational_model,
    relational_ntm as relational_ntm,
    transformer as transformer,
)
from mnemoscope.networks.sizes import (
    count_parameters as count_parameters,
    count_state as count_state,
    find_size as find_size,
    matched_size as matched_size,
)
from mnemoscope.networks.tape import matntm as matntm, ntm as ntm
