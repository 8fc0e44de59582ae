"""Lenses on episodic memories: what they recall, how much they hold, and which of their fixed points are memories."""

from mnemoscope.lenses.recall.basin import Basin as Basin, measure_basin as measure_basin
from mnemoscope.lenses.recall.capacity import Load as Load, measure_load as measure_load
from mnemoscope.lenses.recall.classes import (
    MemoryClass as MemoryClass,
    MemoryClasses as MemoryClasses,
    classify_memories as classify_memories,
)
from mnemoscope.lenses.recall.lens import measure_recall as measure_recall
from mnemoscope.lenses.recall.result import Recall as Recall
