"""Endless streams of (inputs, targets, mask), each with its memoryless baseline loss."""

from mnemoscope.tasks.adding import Adding
from mnemoscope.tasks.copy import Copy
from mnemoscope.tasks.flipflop import FlipFlop
from mnemoscope.tasks.task import Batch, Split, Task

__all__ = ["Adding", "Batch", "Copy", "FlipFlop", "Split", "Task"]
