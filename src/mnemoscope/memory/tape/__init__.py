"""Neural Turing machines: a controller that reads and writes an external memory."""

from mnemoscope.memory.tape.feed_forward import FeedForward as FeedForward
from mnemoscope.memory.tape.machine import TuringMachine as TuringMachine
from mnemoscope.memory.tape.state import TapeState as TapeState
