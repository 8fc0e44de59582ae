"""Comparison of networks and recordings: dynamics, inputs, geometry and fixed points."""

from mnemoscope.lenses.comparison.lens import compare as compare
from mnemoscope.lenses.comparison.result import Comparison as Comparison
