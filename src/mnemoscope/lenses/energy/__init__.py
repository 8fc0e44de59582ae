"""The energy lens: what falls along a network's trajectories, by how much, and why."""

from mnemoscope.lenses.energy.lens import energy_report
from mnemoscope.lenses.energy.report import EnergyReport
from mnemoscope.lenses.energy.surface import EnergySurface, energy_surface

__all__ = ["EnergyReport", "EnergySurface", "energy_report", "energy_surface"]
