"""Cells whose step is affine in the state: state-space models, gated linear attention and delta rules."""

from mnemoscope.cells.affine.cell import AffineCell as AffineCell
from mnemoscope.cells.affine.delta_rules import DeltaNet as DeltaNet, GatedDeltaNet as GatedDeltaNet
from mnemoscope.cells.affine.gated_attention import GLA as GLA
from mnemoscope.cells.affine.mamba import Mamba2 as Mamba2
from mnemoscope.cells.affine.mlstm import MLSTM as MLSTM
from mnemoscope.cells.affine.parts import AffineState as AffineState, Parts as Parts, ScaledState as ScaledState
