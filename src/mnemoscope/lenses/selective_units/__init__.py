"""Selectivity of single units for conditions, in every epoch."""

from mnemoscope.lenses.selective_units.lens import measure_selectivity as measure_selectivity
from mnemoscope.lenses.selective_units.result import Selectivity as Selectivity
