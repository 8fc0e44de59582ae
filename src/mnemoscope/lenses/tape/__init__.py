"""The tape of a Turing machine: its contents, its heads, and the fixed points at which all slots are equal."""

from mnemoscope.lenses.tape.fixed_points import find_uniform_fixed_points as find_uniform_fixed_points
from mnemoscope.lenses.tape.lens import record_tape as record_tape
from mnemoscope.lenses.tape.result import Tape as Tape, UniformFixedPoints as UniformFixedPoints
from mnemoscope.lenses.tape.uniform import UniformTape as UniformTape, make_uniform as make_uniform
