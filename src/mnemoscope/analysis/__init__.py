"""The lenses."""

from mnemoscope.analysis.attention import Attention, Dependencies, attention_of
from mnemoscope.analysis.attractors import (
    Attractors,
    Cycles,
    Kind,
    LyapunovSpectrum,
    attractors,
    find_cycles,
    lyapunov_spectrum,
)
from mnemoscope.analysis.binding import MemoryBasis, VariableMemories, variable_memories
from mnemoscope.analysis.descent import Tolerances
from mnemoscope.analysis.dynamics import Dynamics
from mnemoscope.analysis.energy import EnergyReport, EnergySurface, energy_report, energy_surface
from mnemoscope.analysis.episodic.memory_kinds import MemoryKind, MemoryKinds, classify_memories
from mnemoscope.analysis.episodic.recall import Recall, recall
from mnemoscope.analysis.episodic.retrieval import Basin, MemoryLoad, basin, memory_load
from mnemoscope.analysis.fisher import (
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
from mnemoscope.analysis.fixed_points import FixedPoints, Starts, Status
from mnemoscope.analysis.gradients import GradientNorms, gradients_by_part, gradients_of
from mnemoscope.analysis.growth import Growth
from mnemoscope.analysis.matrix_free import GaussNewtonCG, NewtonKrylov
from mnemoscope.analysis.mixed_precision import ChordNewton
from mnemoscope.analysis.portraits import Evolution, along_inputs, between, follow
from mnemoscope.analysis.pseudospectra import Pseudospectrum
from mnemoscope.analysis.relational import (
    Drift,
    Generalisation,
    Occlusion,
    Relations,
    drift_of,
    occlusion_of,
    relations_of,
)
from mnemoscope.analysis.schur import SchurForm, SubDiagonals, schur_form
from mnemoscope.analysis.search import find_fixed_points
from mnemoscope.analysis.solvers import LevenbergMarquardt, Newton
from mnemoscope.analysis.spectra import Spectrum, spectrum
from mnemoscope.analysis.starts import Adaptive, Box, FromOutputs, FromTrajectories, Several
from mnemoscope.analysis.tape import Tape, tape_of
from mnemoscope.analysis.transient import Transients, transients

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
