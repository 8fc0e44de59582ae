"""Bifurcation diagrams: fixed points tracked over a parameter."""

from mnemoscope.lenses.bifurcations.families import (
    Family as Family,
    interpolate_inputs as interpolate_inputs,
    interpolate_weights as interpolate_weights,
)
from mnemoscope.lenses.bifurcations.lens import track_fixed_points as track_fixed_points
from mnemoscope.lenses.bifurcations.result import (
    BifurcationDiagram as BifurcationDiagram,
    Branch as Branch,
    Event as Event,
)
