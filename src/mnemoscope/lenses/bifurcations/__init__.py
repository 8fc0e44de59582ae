"""The evolution of a phase portrait: fixed points followed over a parameter."""

from mnemoscope.lenses.bifurcations.evolution import Branch, Event, Evolution
from mnemoscope.lenses.bifurcations.families import Family, along_inputs, between
from mnemoscope.lenses.bifurcations.following import follow

__all__ = ["Branch", "Event", "Evolution", "Family", "along_inputs", "between", "follow"]
