"""Cells whose step is affine in the state: state-space models, gated linear attention and delta rules."""

from mnemoscope.cells.affine.cell import AffineCell as AffineCell
from mnemoscope.cells.affine.delta_rules import (
    KDA as KDA,
    DeltaNet as DeltaNet,
    DeltaProduct as DeltaProduct,
    GatedDeltaNet as GatedDeltaNet,
)
from mnemoscope.cells.affine.gated_attention import GLA as GLA, HGRN2 as HGRN2, RetNet as RetNet
from mnemoscope.cells.affine.layer import AffineLayer as AffineLayer
from mnemoscope.cells.affine.mamba import Mamba as Mamba, Mamba2 as Mamba2
from mnemoscope.cells.affine.minimal import RGLRU as RGLRU, MinGRU as MinGRU, MinLSTM as MinLSTM
from mnemoscope.cells.affine.mlstm import MLSTM as MLSTM
from mnemoscope.cells.affine.parts import AffineState as AffineState, Parts as Parts, ScaledState as ScaledState
from mnemoscope.cells.affine.rwkv7 import RWKV7 as RWKV7
from mnemoscope.cells.affine.state_space import LRU as LRU, S4D as S4D, S5 as S5
