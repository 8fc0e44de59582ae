"""The variables lens: which variable a network holds in which direction of its state, at which time."""

from mnemoscope.lenses.variables.angles import AngleError as AngleError, angle_error as angle_error
from mnemoscope.lenses.variables.basis import MemoryBasis as MemoryBasis
from mnemoscope.lenses.variables.interventions import CausalTest as CausalTest
from mnemoscope.lenses.variables.lens import find_variables as find_variables
from mnemoscope.lenses.variables.planted import PlantedNetwork as PlantedNetwork, planted_network as planted_network
from mnemoscope.lenses.variables.result import Variables as Variables
from mnemoscope.lenses.variables.theory import (
    BindingNetwork as BindingNetwork,
    BindingRun as BindingRun,
    largest_interference as largest_interference,
    variables_at as variables_at,
)
