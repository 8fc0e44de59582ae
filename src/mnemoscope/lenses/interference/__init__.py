"""Interference: how well a network recalls one of many stored values, predicted from the weights of the others."""

from mnemoscope.lenses.interference.lens import recall_interference as recall_interference
from mnemoscope.lenses.interference.result import RecallInterference as RecallInterference
from mnemoscope.lenses.interference.trials import RecallTrials as RecallTrials
