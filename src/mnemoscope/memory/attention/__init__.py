"""Attention of a recurrent network to its past states, under a memory budget."""

from mnemoscope.memory.attention.alignment import Additive, Alignment, ScaledDot, Separable
from mnemoscope.memory.attention.attentive import Attentive
from mnemoscope.memory.attention.backtracking import BacktrackingState, SparseBacktracking
from mnemoscope.memory.attention.past import Past
from mnemoscope.memory.attention.retention import FullHistory, RelevanceScreen
from mnemoscope.memory.attention.state import AttentiveState

__all__ = [
    "Additive",
    "Alignment",
    "Attentive",
    "AttentiveState",
    "BacktrackingState",
    "FullHistory",
    "Past",
    "RelevanceScreen",
    "ScaledDot",
    "Separable",
    "SparseBacktracking",
]
