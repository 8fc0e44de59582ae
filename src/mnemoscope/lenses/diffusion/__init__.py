"""Diffusion along a line or ring of slow states: how fast noise spreads the value that a network holds."""

from mnemoscope.lenses.diffusion.lens import measure_diffusion as measure_diffusion
from mnemoscope.lenses.diffusion.result import Diffusion as Diffusion
