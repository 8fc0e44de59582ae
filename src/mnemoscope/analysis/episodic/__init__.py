"""Episodic memories: what they recall, how much they hold, and which of their fixed points are memories."""

from mnemoscope.analysis.episodic.memory_kinds import MemoryKind, MemoryKinds, classify_memories
from mnemoscope.analysis.episodic.recall import Recall, recall
from mnemoscope.analysis.episodic.retrieval import Basin, MemoryLoad, basin, memory_load

__all__ = [
    "Basin",
    "MemoryKind",
    "MemoryKinds",
    "MemoryLoad",
    "Recall",
    "basin",
    "classify_memories",
    "memory_load",
    "recall",
]
