"""Closed loop: a network that reads its own outputs, as a dynamical system, and the loops in which it ends."""

from mnemoscope.lenses.closed_loop.feedback import close_loop as close_loop
from mnemoscope.lenses.closed_loop.lens import find_loops as find_loops
from mnemoscope.lenses.closed_loop.result import Loops as Loops
