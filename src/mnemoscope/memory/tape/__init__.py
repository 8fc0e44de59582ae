"""A tape that a controller writes to and reads from: neural Turing machines."""

from mnemoscope.memory.tape.feed_forward import FeedForward
from mnemoscope.memory.tape.machine import TapeState, TuringMachine

__all__ = [
    "FeedForward",
    "TapeState",
    "TuringMachine",
]
