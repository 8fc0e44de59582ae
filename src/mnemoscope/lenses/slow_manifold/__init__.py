"""Slow manifolds: continuous memories that hold a value approximately, their shape, drift and lifetime."""

from mnemoscope.lenses.slow_manifold.lens import find_slow_manifold as find_slow_manifold
from mnemoscope.lenses.slow_manifold.result import SlowManifold as SlowManifold
