"""Basins of attractors: from which perturbations a network returns to the same fixed point or cycle."""

from mnemoscope.lenses.basins.lens import measure_basin as measure_basin
from mnemoscope.lenses.basins.result import Basins as Basins
