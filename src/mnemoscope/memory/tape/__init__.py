"""A tape that a controller writes to and reads from: neural Turing machines."""

from mnemoscope.memory.tape.controllers import (
    CellController,
    Controller,
    DeepTransition,
    FeedForward,
    MatrixLSTMController,
)
from mnemoscope.memory.tape.machine import TapeState, TuringMachine
from mnemoscope.memory.tape.named import matntm, ntm

__all__ = [
    "CellController",
    "Controller",
    "DeepTransition",
    "FeedForward",
    "MatrixLSTMController",
    "TapeState",
    "TuringMachine",
    "matntm",
    "ntm",
]
