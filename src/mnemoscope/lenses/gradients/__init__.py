"""Gradient norms: how much of a loss reaches each past step, and along which path."""

from mnemoscope.lenses.gradients.lens import GradientNorms, gradients_by_part, gradients_of

__all__ = ["GradientNorms", "gradients_by_part", "gradients_of"]
