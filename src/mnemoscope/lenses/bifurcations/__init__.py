"""The evolution of a phase portrait: fixed points followed over a parameter."""

from mnemoscope.lenses.bifurcations.evolution import BifurcationDiagram, Branch, Event
from mnemoscope.lenses.bifurcations.families import Family, interpolate_inputs, interpolate_weights
from mnemoscope.lenses.bifurcations.following import track_fixed_points

__all__ = [
    "BifurcationDiagram",
    "Branch",
    "Event",
    "Family",
    "interpolate_inputs",
    "interpolate_weights",
    "track_fixed_points",
]
