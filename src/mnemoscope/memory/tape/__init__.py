"""A tape that a controller writes to and reads from: neural Turing machines."""

from mnemoscope.memory.tape.feed_forward import FeedForward
from mnemoscope.memory.tape.machine import TuringMachine
from mnemoscope.memory.tape.state import TapeState

__all__ = [
    "FeedForward",
    "TapeState",
    "TuringMachine",
]
