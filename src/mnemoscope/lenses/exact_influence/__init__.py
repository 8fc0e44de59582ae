"""Influence: how much every past input matters for every output, exactly, in layers that are affine in their state."""

from mnemoscope.lenses.exact_influence.layer_derivatives import FullPath as FullPath, full_path as full_path
from mnemoscope.lenses.exact_influence.lens import influence as influence
from mnemoscope.lenses.exact_influence.result import Influence as Influence, LayerInfluence as LayerInfluence
from mnemoscope.lenses.exact_influence.value_path import ValuePaths as ValuePaths, value_paths as value_paths
