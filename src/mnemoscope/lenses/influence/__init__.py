"""Influence: how much every past input matters for every output, exactly, in layers that are affine in their state."""

from mnemoscope.lenses.influence.value_path import ValuePaths as ValuePaths, value_paths as value_paths
