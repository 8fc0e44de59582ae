"""Influence: how much the input of one step changes later outputs and states."""

from mnemoscope.lenses.influence.lens import measure_influence as measure_influence
from mnemoscope.lenses.influence.result import Influence as Influence
