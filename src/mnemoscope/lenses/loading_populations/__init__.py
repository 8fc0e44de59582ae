"""Populations of units in low-rank networks, and the task performance that they explain."""

from mnemoscope.lenses.loading_populations.lens import measure_resampling as measure_resampling
from mnemoscope.lenses.loading_populations.mixture_fit import fit_mixture as fit_mixture
from mnemoscope.lenses.loading_populations.result import Resampling as Resampling
