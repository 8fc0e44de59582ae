"""Tensor components: activity as a sum of products of a trial, a time and a unit factor (Williams et al. 2018)."""

from mnemoscope.lenses.trial_tensor.lens import tensor_components as tensor_components
from mnemoscope.lenses.trial_tensor.result import TensorComponents as TensorComponents
