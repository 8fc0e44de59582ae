"""Lenses: each analyses a network or a dynamical system and returns a `Result`."""

from mnemoscope.lenses.attention import Attention, AttentionDependencies, record_attention
from mnemoscope.lenses.attractors import (
    Attractors,
    Cycles,
    Kind,
    LyapunovSpectrum,
    find_attractors,
    find_cycles,
    lyapunov_spectrum,
)
from mnemoscope.lenses.bifurcations import (
    BifurcationDiagram,
    interpolate_inputs,
    interpolate_weights,
    track_fixed_points,
)
from mnemoscope.lenses.capacity import MemoryCapacity, measure_memory_capacity, memory_capacity
from mnemoscope.lenses.design import MemoryDesign, design_memory
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.energy import EnergyDescent, EnergySurface, energy_descent, energy_surface
from mnemoscope.lenses.fisher import FisherMemory, MatrixSystem, fisher_memory
from mnemoscope.lenses.fixed_points.descent import Tolerances
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.matrix_free import GaussNewtonCG, NewtonKrylov
from mnemoscope.lenses.fixed_points.mixed_precision import ChordNewton
from mnemoscope.lenses.fixed_points.newton import LevenbergMarquardt, Newton
from mnemoscope.lenses.fixed_points.result import FixedPoints, Starts, Status
from mnemoscope.lenses.fixed_points.starts import Adaptive, Box, FromOutputs, FromTrajectories, Several
from mnemoscope.lenses.gradients import GradientNorms, gradient_norms
from mnemoscope.lenses.recall import (
    Basin,
    Load,
    MemoryClass,
    MemoryClasses,
    Recall,
    classify_memories,
    measure_basin,
    measure_load,
    measure_recall,
)
from mnemoscope.lenses.relations import (
    Drift,
    Generalisation,
    Occlusion,
    Relations,
    measure_drift,
    measure_occlusion,
    record_relations,
)
from mnemoscope.lenses.spectra import (
    Growth,
    Pseudospectrum,
    SchurForm,
    Spectrum,
    SubDiagonals,
    schur_form,
    spectrum,
)
from mnemoscope.lenses.tape import Tape, record_tape
from mnemoscope.lenses.transient_growth import Transients, transients
from mnemoscope.lenses.variables import MemoryBasis, Variables, find_variables

__all__ = [
    "Adaptive",
    "Attention",
    "AttentionDependencies",
    "Attractors",
    "Basin",
    "BifurcationDiagram",
    "Box",
    "ChordNewton",
    "Cycles",
    "Drift",
    "Dynamics",
    "EnergyDescent",
    "EnergySurface",
    "FisherMemory",
    "FixedPoints",
    "FromOutputs",
    "FromTrajectories",
    "GaussNewtonCG",
    "Generalisation",
    "GradientNorms",
    "Growth",
    "Kind",
    "LevenbergMarquardt",
    "Load",
    "LyapunovSpectrum",
    "MatrixSystem",
    "MemoryBasis",
    "MemoryCapacity",
    "MemoryClass",
    "MemoryClasses",
    "MemoryDesign",
    "Newton",
    "NewtonKrylov",
    "Occlusion",
    "Pseudospectrum",
    "Recall",
    "Relations",
    "SchurForm",
    "Several",
    "Spectrum",
    "Starts",
    "Status",
    "SubDiagonals",
    "Tape",
    "Tolerances",
    "Transients",
    "Variables",
    "classify_memories",
    "design_memory",
    "energy_descent",
    "energy_surface",
    "find_attractors",
    "find_cycles",
    "find_fixed_points",
    "find_variables",
    "fisher_memory",
    "gradient_norms",
    "interpolate_inputs",
    "interpolate_weights",
    "lyapunov_spectrum",
    "measure_basin",
    "measure_drift",
    "measure_load",
    "measure_memory_capacity",
    "measure_occlusion",
    "measure_recall",
    "memory_capacity",
    "record_attention",
    "record_relations",
    "record_tape",
    "schur_form",
    "spectrum",
    "track_fixed_points",
    "transients",
]
