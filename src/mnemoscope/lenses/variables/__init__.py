"""The variables lens: which variable a network holds in which direction of its state, at which time."""

from mnemoscope.lenses.variables.angles import AngleError, angle_error
from mnemoscope.lenses.variables.basis import MemoryBasis
from mnemoscope.lenses.variables.interventions import CausalTest
from mnemoscope.lenses.variables.lens import find_variables
from mnemoscope.lenses.variables.planted import PlantedNetwork, planted_network
from mnemoscope.lenses.variables.result import Variables
from mnemoscope.lenses.variables.theory import BindingNetwork, BindingRun, largest_interference, variables_at

__all__ = [
    "AngleError",
    "BindingNetwork",
    "BindingRun",
    "CausalTest",
    "MemoryBasis",
    "PlantedNetwork",
    "Variables",
    "angle_error",
    "find_variables",
    "largest_interference",
    "planted_network",
    "variables_at",
]
