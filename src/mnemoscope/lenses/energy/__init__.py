"""The energy lens: what falls along a network's trajectories, by how much, and why."""

from mnemoscope.lenses.energy.lens import energy_descent
from mnemoscope.lenses.energy.report import EnergyDescent
from mnemoscope.lenses.energy.surface import EnergySurface, energy_surface

__all__ = ["EnergyDescent", "EnergySurface", "energy_descent", "energy_surface"]
