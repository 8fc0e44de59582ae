"""Gradient norms: how much of a loss reaches each past step, and through which part of the state."""

from mnemoscope.lenses.gradients.lens import gradient_norms as gradient_norms
from mnemoscope.lenses.gradients.result import GradientNorms as GradientNorms
