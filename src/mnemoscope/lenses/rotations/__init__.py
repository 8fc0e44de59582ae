"""Rotations of a population: the skew-symmetric dynamics that fit best (jPCA), beside surrogates without dynamics."""

from mnemoscope.lenses.rotations.lens import find_rotations as find_rotations
from mnemoscope.lenses.rotations.result import Rotations as Rotations
