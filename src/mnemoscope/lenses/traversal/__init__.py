"""Kinematics of trajectories: how fast conditions move along them, and how far they are from a reference."""

from mnemoscope.lenses.traversal.lens import measure_speed as measure_speed
from mnemoscope.lenses.traversal.result import Traversal as Traversal
