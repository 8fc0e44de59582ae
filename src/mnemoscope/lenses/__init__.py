"""The lenses."""

from mnemoscope.lenses.attention import Attention, Dependencies, attention_of
from mnemoscope.lenses.attractors import (
    Attractors,
    Cycles,
    Kind,
    LyapunovSpectrum,
    attractors,
    find_cycles,
    lyapunov_spectrum,
)
from mnemoscope.lenses.bifurcations import Evolution, along_inputs, between, follow
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.energy import EnergyReport, EnergySurface, energy_report, energy_surface
from mnemoscope.lenses.fisher import (
    Design,
    FisherMemory,
    MatrixSystem,
    MemoryCapacity,
    TrajectoryMemory,
    design_memory,
    fisher_along,
    fisher_memory,
    measured_memory_capacity,
    memory_capacity,
)
from mnemoscope.lenses.fixed_points.descent import Tolerances
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.matrix_free import GaussNewtonCG, NewtonKrylov
from mnemoscope.lenses.fixed_points.mixed_precision import ChordNewton
from mnemoscope.lenses.fixed_points.result import FixedPoints, Starts, Status
from mnemoscope.lenses.fixed_points.solvers import LevenbergMarquardt, Newton
from mnemoscope.lenses.fixed_points.starts import Adaptive, Box, FromOutputs, FromTrajectories, Several
from mnemoscope.lenses.gradients.lens import GradientNorms, gradients_by_part, gradients_of
from mnemoscope.lenses.recall.memory_kinds import MemoryKind, MemoryKinds, classify_memories
from mnemoscope.lenses.recall.retrieval import Basin, MemoryLoad, basin, memory_load
from mnemoscope.lenses.recall.sequences import Recall, recall
from mnemoscope.lenses.relations import (
    Drift,
    Generalisation,
    Occlusion,
    Relations,
    drift_of,
    occlusion_of,
    relations_of,
)
from mnemoscope.lenses.spectra.growth import Growth
from mnemoscope.lenses.spectra.lens import Spectrum, spectrum
from mnemoscope.lenses.spectra.pseudospectra import Pseudospectrum
from mnemoscope.lenses.spectra.schur import SchurForm, SubDiagonals, schur_form
from mnemoscope.lenses.spectra.transient_growth import Transients, transients
from mnemoscope.lenses.tape import Tape, tape_of
from mnemoscope.lenses.variables import MemoryBasis, VariableMemories, variable_memories

__all__ = [
    "Adaptive",
    "Attention",
    "Attractors",
    "Basin",
    "Box",
    "ChordNewton",
    "Cycles",
    "Dependencies",
    "Design",
    "Drift",
    "Dynamics",
    "EnergyReport",
    "EnergySurface",
    "Evolution",
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
    "LyapunovSpectrum",
    "MatrixSystem",
    "MemoryBasis",
    "MemoryCapacity",
    "MemoryKind",
    "MemoryKinds",
    "MemoryLoad",
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
    "TrajectoryMemory",
    "Transients",
    "VariableMemories",
    "along_inputs",
    "attention_of",
    "attractors",
    "basin",
    "between",
    "classify_memories",
    "design_memory",
    "drift_of",
    "energy_report",
    "energy_surface",
    "find_cycles",
    "find_fixed_points",
    "fisher_along",
    "fisher_memory",
    "follow",
    "gradients_by_part",
    "gradients_of",
    "lyapunov_spectrum",
    "measured_memory_capacity",
    "memory_capacity",
    "memory_load",
    "occlusion_of",
    "recall",
    "relations_of",
    "schur_form",
    "spectrum",
    "tape_of",
    "transients",
    "variable_memories",
]
