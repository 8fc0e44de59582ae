"""Named networks whose factory is the cell class itself, under the name that the registry gives it."""

from mnemoscope.cells import GRU, LSTM, EchoState, Elman, HDetach
from mnemoscope.cells.affine import GLA, MLSTM, DeltaNet, GatedDeltaNet, Mamba2

elman = Elman
"""Elman network with any recurrent matrix and nonlinearity (Elman 1990)."""
gru = GRU
"""Gated recurrent unit (Cho et al. 2014)."""
lstm = LSTM
"""Long short-term memory (Hochreiter & Schmidhuber 1997)."""
h_detach = HDetach
"""LSTM whose gradient through h is cut at random steps (Kanuparthi et al. 2019)."""
echo_state = EchoState
"""Fixed random reservoir with a learned readout (Jaeger et al. 2007; Sussillo & Abbott 2009)."""
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
