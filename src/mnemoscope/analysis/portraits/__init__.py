"""The evolution of a phase portrait: fixed points followed over a parameter."""

from mnemoscope.analysis.portraits.evolution import Branch, Event, Evolution
from mnemoscope.analysis.portraits.families import Family, along_inputs, between
from mnemoscope.analysis.portraits.following import follow

__all__ = ["Branch", "Event", "Evolution", "Family", "along_inputs", "between", "follow"]
