"""Populations for lenses: a recording, or a network that is run over its inputs first."""

from __future__ import annotations

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.trial_table import TrialTable
from mnemoscope.cells import Network
from mnemoscope.lenses.recording.lens import record_activity
from mnemoscope.lenses.recording.result import Recording


def as_recording(
    population: Recording | Network, inputs: Tensor | PackedSequence | None, table: TrialTable | None
) -> Recording:
    """Return a recording unchanged; run a network over its inputs, with the conditions of the table."""
    if isinstance(population, Recording):
        if inputs is not None or table is not None:
            raise ValueError("A recording has its inputs and its table; pass the recording alone.")
        return check_finite(population)
    if inputs is None:
        raise ValueError("A network needs inputs, and a table with the conditions of their trials.")
    return check_finite(record_activity(population, inputs, table))


def check_finite(recording: Recording) -> Recording:
    """Return a recording; raise if a number in it is infinite."""
    infinite = recording.activity.isinf()
    if bool(infinite.any()):
        step, trial, unit = infinite.nonzero()[0].tolist()
        raise ValueError(
            f"Unit {unit} is infinite at step {step} of trial {trial}: correct it, or write NaN where nothing was "
            f"recorded."
        )
    return recording


def chosen_conditions(recording: Recording, conditions: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the conditions to compare, by default all of the table; raise if there are none."""
    chosen = recording.table.names if conditions is None else tuple(conditions)
    if not chosen:
        raise ValueError(
            "The recording has no conditions: pass a table to Recording.from_trials or ms.record_activity, such as "
            'ms.TrialTable.of({"side": [0, 1, ...]}).'
        )
    return chosen
