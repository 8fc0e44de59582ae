"""The systems that can be compared, as recordings: networks are run on the inputs, arrays and recordings are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Int
from mnemoscope.cells import Lengths, Model, as_cell, read_equal_inputs
from mnemoscope.lenses.comparison.delays import is_finite
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.recording import Recording, record_activity

Inputs = Tensor | PackedSequence | Sequence[Tensor | PackedSequence | None] | None
"""Inputs of all systems, or those of each system."""


def read_systems(systems: Sequence[Any], inputs: Inputs, lengths: Lengths | None) -> list[Recording]:
    """Return the activity of each system, with NaN after the end of a trial only."""
    batch_first = _layout(systems, inputs)
    return [
        _checked(_recording(system, given, lengths, f"System {number}", batch_first), f"System {number}")
        for number, (system, given) in enumerate(zip(systems, inputs_of_each(systems, inputs), strict=True))
    ]


def inputs_of_each(systems: Sequence[Any], inputs: Inputs) -> list[Any]:
    """Return the inputs of each system."""
    if inputs is None or isinstance(inputs, Tensor | PackedSequence):
        return [inputs] * len(systems)
    if len(inputs) != len(systems):
        raise ValueError(f"{len(systems)} systems need one inputs tensor, or {len(systems)}, but {len(inputs)} given.")
    return list(inputs)


def lengths_of(recording: Recording) -> Int[Tensor, " trials"]:
    """Return the number of steps of each trial."""
    if is_finite(recording.activity.numpy()):
        return torch.full((recording.trials,), len(recording.activity))
    return recording.present.sum(0)


def _layout(systems: Sequence[Any], inputs: Inputs) -> bool:
    """Return whether common inputs are (batch, time, features), the layout of the networks, which must be the same."""
    if not isinstance(inputs, Tensor):
        return False
    layouts = {
        number: _cell(system).batch_first
        for number, system in enumerate(systems)
        if not isinstance(system, Recording | Tensor | np.ndarray)
    }
    if len(set(layouts.values())) > 1:
        first = [str(number) for number, batch_first in layouts.items() if batch_first]
        raise ValueError(
            f"The systems {', '.join(first)} have batch_first, the other networks do not, so that one tensor does not "
            f"fit all. Pass a list with the inputs of each, inputs=[x, x.transpose(0, 1), ...]."
        )
    return any(layouts.values())


def _cell(system: Any) -> Any:
    network = system.cell if isinstance(system, Dynamics) else system
    return network.cell if isinstance(network, Model) else as_cell(network)


def _recording(system: Any, inputs: Any, lengths: Lengths | None, name: str, batch_first: bool) -> Recording:
    if isinstance(system, Recording):
        known = system.inputs is not None or inputs is None
        return system if known else _with_inputs(system.activity, inputs, batch_first)
    if isinstance(system, Tensor | np.ndarray):
        activity = torch.as_tensor(system, dtype=torch.float64, device="cpu").detach()
        if activity.dim() != 3:
            raise ValueError(f"{name} must be (time, trials, units), but its shape is {tuple(activity.shape)}.")
        return _with_inputs(activity, inputs, batch_first)
    network = system.cell if isinstance(system, Dynamics) else system
    if inputs is None:
        raise ValueError(
            f"{name} is a network, which is run to record its activity: pass inputs=..., (time, batch, features)."
        )
    return record_activity(network, inputs, lengths=lengths)


def _with_inputs(activity: Tensor, inputs: Any, batch_first: bool) -> Recording:
    if inputs is None:
        return Recording(activity)
    given = read_equal_inputs(inputs, batch_first=batch_first).detach().double().cpu()
    if given.shape[:2] != activity.shape[:2]:
        raise ValueError(
            f"Inputs must be (time, trials, features) with the steps and trials of the activity, "
            f"{tuple(activity.shape[:2])}, but their shape is {tuple(given.shape)}."
        )
    return Recording(activity, inputs=given)


def _checked(recording: Recording, name: str) -> Recording:
    if is_finite(recording.activity.numpy()):
        return recording
    present = recording.present
    if not bool(present.any()):
        raise ValueError(f"{name} has no activity: all its numbers are NaN.")
    if bool((recording.activity.isnan().any(2) & present).any()):
        raise ValueError(
            f"{name} has units that are missing in some steps or trials. Leave these units or trials out: a comparison "
            f"needs all units of a system together."
        )
    if bool((present[1:] & ~present[:-1]).any()):
        raise ValueError(f"{name} has gaps: NaN may only follow the end of a trial. Cut its trials there.")
    if not torch.isfinite(recording.activity[present]).all():
        raise ValueError(f"{name} has infinite values.")
    return recording
