"""The energy lens: what falls along a network's trajectories, by how much, and why."""

from mnemoscope.analysis.energy.looking import energy_report
from mnemoscope.analysis.energy.report import EnergyReport
from mnemoscope.analysis.energy.surface import EnergySurface, energy_surface

__all__ = ["EnergyReport", "EnergySurface", "energy_report", "energy_surface"]
