"""The tape of a Turing machine: its contents, its heads, and the fixed points at which all slots are equal."""

from mnemoscope.lenses.tape.fixed_points import find_uniform_fixed_points
from mnemoscope.lenses.tape.lens import record_tape
from mnemoscope.lenses.tape.result import Tape, UniformFixedPoints
from mnemoscope.lenses.tape.uniform import UniformTape, make_uniform

__all__ = [
    "Tape",
    "UniformFixedPoints",
    "UniformTape",
    "find_uniform_fixed_points",
    "make_uniform",
    "record_tape",
]
