"""Named networks whose factory is the cell class itself, under the name that the registry gives it."""

from mnemoscope.cells import GRU, LSTM, SLSTM, DiagonalGRU, DiagonalLSTM, EchoState, Elman, HDetach, LeakyRNN
from mnemoscope.cells.affine import (
    GLA,
    HGRN2,
    KDA,
    LRU,
    MLSTM,
    RGLRU,
    RWKV7,
    S4D,
    S5,
    DeltaNet,
    DeltaProduct,
    GatedDeltaNet,
    Mamba,
    Mamba2,
    MinGRU,
    MinLSTM,
    RetNet,
)

elman = Elman
"""Elman network with any recurrent matrix and nonlinearity (Elman 1990)."""
gru = GRU
"""Gated recurrent unit (Cho et al. 2014)."""
lstm = LSTM
"""Long short-term memory (Hochreiter & Schmidhuber 1997)."""
h_detach = HDetach
"""LSTM whose gradient through h is cut at random steps (Kanuparthi et al. 2019)."""
diagonal_gru = DiagonalGRU
"""GRU whose recurrent matrices are diagonal (Danieli et al. 2026)."""
diagonal_lstm = DiagonalLSTM
"""LSTM whose recurrent matrices are diagonal, with coupled gates and peepholes (Danieli et al. 2026)."""
echo_state = EchoState
"""Fixed random reservoir with a learned readout (Jaeger et al. 2007; Sussillo & Abbott 2009)."""
leaky_rnn = LeakyRNN
"""Leaky units in current or rate form, all weights trained (Song et al. 2016; Yang et al. 2019)."""
slstm = SLSTM
"""LSTM with exponential gates and a normaliser, of xLSTM (Beck et al. 2024)."""
s4d = S4D
"""Diagonal state-space model for each channel (Gu et al. 2022)."""
s5 = S5
"""Diagonal state-space model for all channels together (Smith et al. 2023)."""
lru = LRU
"""Linear recurrent unit: complex, diagonal and constant (Orvieto et al. 2023)."""
mingru = MinGRU
"""GRU whose gate does not see the state (Feng et al. 2024)."""
minlstm = MinLSTM
"""LSTM whose gates do not see the state (Feng et al. 2024)."""
rg_lru = RGLRU
"""Real-gated linear recurrent unit of Griffin (De et al. 2024)."""
retnet = RetNet
"""Retention: linear attention with a constant decay (Sun et al. 2023)."""
hgrn2 = HGRN2
"""Gated linear attention whose keys are its forget gates (Qin et al. 2024)."""
mamba = Mamba
"""Selective state-space model with one decay per number (Gu & Dao 2024)."""
mamba2 = Mamba2
"""Selective state-space model with one decay per head (Dao & Gu 2024)."""
gla = GLA
"""Gated linear attention (Yang et al. 2024)."""
mlstm = MLSTM
"""Matrix memory of xLSTM (Beck et al. 2024)."""
deltanet = DeltaNet
"""Matrix memory with the delta rule (Schlag et al. 2021; Yang et al. 2024)."""
gated_deltanet = GatedDeltaNet
"""Matrix memory with the gated delta rule (Yang et al. 2025)."""
deltaproduct = DeltaProduct
"""Matrix memory with several delta rules per input (Siems et al. 2025)."""
kda = KDA
"""Kimi Delta Attention: a delta rule with one decay per key (Kimi Team 2025)."""
rwkv7 = RWKV7
"""Time mixing of RWKV-7 (Peng et al. 2025)."""
