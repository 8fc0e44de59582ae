"""Demixed principal components: one set of components for time, and one for every condition and interaction."""

from mnemoscope.lenses.demixing.lens import demixed_components as demixed_components
from mnemoscope.lenses.demixing.result import DemixedComponents as DemixedComponents
