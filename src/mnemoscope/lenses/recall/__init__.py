"""Lenses on episodic memories: what they recall, how much they hold, and which of their fixed points are memories."""

from mnemoscope.lenses.recall.classes import (
    MemoryClass as MemoryClass,
    MemoryClasses as MemoryClasses,
    classify_memories as classify_memories,
)
from mnemoscope.lenses.recall.corruption import (
    Load as Load,
    RecallBasin as RecallBasin,
    measure_load as measure_load,
    measure_recall_basin as measure_recall_basin,
)
from mnemoscope.lenses.recall.lens import measure_recall as measure_recall
from mnemoscope.lenses.recall.result import Recall as Recall
