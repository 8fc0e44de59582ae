"""Neural Turing machines: a controller that reads and writes an external memory."""

from mnemoscope.memory.tape.feed_forward import FeedForward
from mnemoscope.memory.tape.machine import TuringMachine
from mnemoscope.memory.tape.state import TapeState

__all__ = [
    "FeedForward",
    "TapeState",
    "TuringMachine",
]
