"""Lenses on episodic memories: what they recall, how much they hold, and which of their fixed points are memories."""

from mnemoscope.lenses.recall.basin import Basin, measure_basin
from mnemoscope.lenses.recall.capacity import Load, measure_load
from mnemoscope.lenses.recall.classes import MemoryClass, MemoryClasses, classify_memories
from mnemoscope.lenses.recall.lens import measure_recall
from mnemoscope.lenses.recall.result import Recall

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
