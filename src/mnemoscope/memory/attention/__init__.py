"""Attention of a recurrent network to its past states, under a memory budget."""

from mnemoscope.memory.attention.alignment import (
    Additive as Additive,
    Alignment as Alignment,
    ScaledDot as ScaledDot,
    Separable as Separable,
)
from mnemoscope.memory.attention.attentive import Attentive as Attentive
from mnemoscope.memory.attention.backtracking import (
    BacktrackingState as BacktrackingState,
    SparseBacktracking as SparseBacktracking,
)
from mnemoscope.memory.attention.causal import CausalAttention as CausalAttention, KeyValueState as KeyValueState
from mnemoscope.memory.attention.past import Past as Past
from mnemoscope.memory.attention.positions import CountState as CountState, SinusoidalPositions as SinusoidalPositions
from mnemoscope.memory.attention.retention import FullHistory as FullHistory, RelevanceScreen as RelevanceScreen
from mnemoscope.memory.attention.state import AttentiveState as AttentiveState
