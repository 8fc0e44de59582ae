"""Predictability: whether a network can run in parallel over time on given inputs."""

from mnemoscope.lenses.predictability.lens import measure_predictability as measure_predictability
from mnemoscope.lenses.predictability.result import Predictability as Predictability
