"""The lenses."""

from mnemoscope.analysis.descent import Tolerances
from mnemoscope.analysis.dynamics import Dynamics
from mnemoscope.analysis.fixed_points import FixedPoints, Starts, Status
from mnemoscope.analysis.matrix_free import GaussNewtonCG, NewtonKrylov
from mnemoscope.analysis.search import find_fixed_points
from mnemoscope.analysis.solvers import LevenbergMarquardt, Newton
from mnemoscope.analysis.starts import Adaptive, Box, FromTrajectories

__all__ = [
    "Adaptive",
    "Box",
    "Dynamics",
    "FixedPoints",
    "FromTrajectories",
    "GaussNewtonCG",
    "LevenbergMarquardt",
    "Newton",
    "NewtonKrylov",
    "Starts",
    "Status",
    "Tolerances",
    "find_fixed_points",
]
