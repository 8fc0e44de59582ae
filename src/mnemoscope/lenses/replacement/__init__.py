"""Measured influence: replace the input of one step, and see what changes later."""

from mnemoscope.lenses.replacement.lens import measure_influence as measure_influence
from mnemoscope.lenses.replacement.result import MeasuredInfluence as MeasuredInfluence
