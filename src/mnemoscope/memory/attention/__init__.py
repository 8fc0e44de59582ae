"""Attention of a recurrent network to its own past, under a stated budget."""

from mnemoscope.memory.attention.alignment import Additive, Alignment, ScaledDot
from mnemoscope.memory.attention.attentive import Attentive, AttentiveState
from mnemoscope.memory.attention.past import FullHistory, RelevanceScreen

__all__ = ["Additive", "Alignment", "Attentive", "AttentiveState", "FullHistory", "RelevanceScreen", "ScaledDot"]
