"""Bifurcation diagrams: fixed points tracked over a parameter."""

from mnemoscope.lenses.bifurcations.families import Family, interpolate_inputs, interpolate_weights
from mnemoscope.lenses.bifurcations.lens import track_fixed_points
from mnemoscope.lenses.bifurcations.result import BifurcationDiagram, Branch, Event

__all__ = [
    "BifurcationDiagram",
    "Branch",
    "Event",
    "Family",
    "interpolate_inputs",
    "interpolate_weights",
    "track_fixed_points",
]
