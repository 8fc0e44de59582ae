"""Episodic memories: what they recall, how much they hold, and which of their fixed points are memories."""

from mnemoscope.lenses.recall.memory_kinds import MemoryClass, MemoryClasses, classify_memories
from mnemoscope.lenses.recall.retrieval import Basin, Load, measure_basin, measure_load
from mnemoscope.lenses.recall.sequences import Recall, measure_recall

__all__ = [
    "Basin",
    "Load",
    "MemoryClass",
    "MemoryClasses",
    "Recall",
    "classify_memories",
    "measure_basin",
    "measure_load",
    "measure_recall",
]
