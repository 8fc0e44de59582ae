"""State tracking: what a network has learned of a group, and the length of words at which it fails."""

from mnemoscope.lenses.tracking.lens import state_tracking as state_tracking
from mnemoscope.lenses.tracking.result import StateTracking as StateTracking
