"""Episodic memories: what they recall, how much they hold, and which of their fixed points are memories."""

from mnemoscope.lenses.recall.memory_kinds import MemoryKind, MemoryKinds, classify_memories
from mnemoscope.lenses.recall.retrieval import Basin, MemoryLoad, basin, memory_load
from mnemoscope.lenses.recall.sequences import Recall, recall

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
