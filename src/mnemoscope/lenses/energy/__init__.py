"""The energy lens: which function falls along the trajectories of a network, by how much, and why."""

from mnemoscope.lenses.energy.lens import energy_descent as energy_descent
from mnemoscope.lenses.energy.result import EnergyDescent as EnergyDescent
from mnemoscope.lenses.energy.surface import EnergySurface as EnergySurface, energy_surface as energy_surface
