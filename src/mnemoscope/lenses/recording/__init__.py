"""Recordings: the activity of units in trials, of a network or of neurons, with the conditions of each trial."""

from mnemoscope.lenses.recording.condition_grid import ConditionGrid as ConditionGrid
from mnemoscope.lenses.recording.files import read_recording as read_recording
from mnemoscope.lenses.recording.lens import record_activity as record_activity
from mnemoscope.lenses.recording.regression import regression_axes as regression_axes
from mnemoscope.lenses.recording.result import Recording as Recording
from mnemoscope.lenses.recording.source import (
    as_recording as as_recording,
    check_finite as check_finite,
    chosen_conditions as chosen_conditions,
)
