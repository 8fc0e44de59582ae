"""Transient growth: norm and spread of an ensemble of states over time."""

from mnemoscope.lenses.transient_growth.lens import transients as transients
from mnemoscope.lenses.transient_growth.result import Transients as Transients
