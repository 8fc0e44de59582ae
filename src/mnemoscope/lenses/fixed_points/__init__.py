"""Fixed points and slow points: where a network can rest, how it leaves, and whether a point is missing."""

from mnemoscope.lenses.fixed_points.composite_starts import (
    Adaptive as Adaptive,
    Several as Several,
)
from mnemoscope.lenses.fixed_points.descent import Tolerances as Tolerances
from mnemoscope.lenses.fixed_points.lens import find_fixed_points as find_fixed_points
from mnemoscope.lenses.fixed_points.matrix_free import GaussNewtonCG as GaussNewtonCG, NewtonKrylov as NewtonKrylov
from mnemoscope.lenses.fixed_points.mixed_precision import ChordNewton as ChordNewton
from mnemoscope.lenses.fixed_points.newton import LevenbergMarquardt as LevenbergMarquardt, Newton as Newton
from mnemoscope.lenses.fixed_points.outcomes import (
    Certificate as Certificate,
    Starts as Starts,
    Status as Status,
)
from mnemoscope.lenses.fixed_points.peer_files import import_fixed_points as import_fixed_points
from mnemoscope.lenses.fixed_points.result import (
    FixedPoints as FixedPoints,
)
from mnemoscope.lenses.fixed_points.starts import (
    Box as Box,
    FromOutputs as FromOutputs,
    FromTrajectories as FromTrajectories,
)
