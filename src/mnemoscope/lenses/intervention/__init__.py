"""Interventions: erase, swap or transplant a variable in the state, beside random subspaces as controls."""

from mnemoscope.lenses.intervention.lens import measure_intervention as measure_intervention
from mnemoscope.lenses.intervention.result import Intervention as Intervention
