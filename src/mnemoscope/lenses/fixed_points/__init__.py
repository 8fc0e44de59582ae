"""Fixed points and slow points: where a network can rest, how it leaves, and whether a point is missing."""

from mnemoscope.lenses.fixed_points.descent import Tolerances
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.matrix_free import GaussNewtonCG, NewtonKrylov
from mnemoscope.lenses.fixed_points.mixed_precision import ChordNewton
from mnemoscope.lenses.fixed_points.newton import LevenbergMarquardt, Newton
from mnemoscope.lenses.fixed_points.result import FixedPoints, Starts, Status
from mnemoscope.lenses.fixed_points.starts import Adaptive, Box, FromOutputs, FromTrajectories, Several

__all__ = [
    "Adaptive",
    "Box",
    "ChordNewton",
    "FixedPoints",
    "FromOutputs",
    "FromTrajectories",
    "GaussNewtonCG",
    "LevenbergMarquardt",
    "Newton",
    "NewtonKrylov",
    "Several",
    "Starts",
    "Status",
    "Tolerances",
    "find_fixed_points",
]
