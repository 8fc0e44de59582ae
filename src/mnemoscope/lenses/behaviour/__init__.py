"""Behaviour: what a network answers on given trials, and how well at each step, position, delay and span."""

from mnemoscope.lenses.behaviour.lens import record_behaviour as record_behaviour
from mnemoscope.lenses.behaviour.result import Behaviour as Behaviour, SpanScores as SpanScores
