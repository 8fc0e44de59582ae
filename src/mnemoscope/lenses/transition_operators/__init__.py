"""Transition operators: how each input of an affine recurrence keeps, turns or erases the state."""

from mnemoscope.lenses.transition_operators.lens import transitions as transitions
from mnemoscope.lenses.transition_operators.result import (
    LayerTransitions as LayerTransitions,
    Transitions as Transitions,
)
