"""The energy lens: which function falls along the trajectories of a network, by how much, and why."""

from mnemoscope.lenses.energy.lens import energy_descent
from mnemoscope.lenses.energy.result import EnergyDescent
from mnemoscope.lenses.energy.surface import EnergySurface, energy_surface

__all__ = ["EnergyDescent", "EnergySurface", "energy_descent", "energy_surface"]
