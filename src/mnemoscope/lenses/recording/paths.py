"""Trajectories of a recording by condition, for figures of the state space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.trial_table import Condition, TrialTable
from mnemoscope.drawing.palette import Colours
from mnemoscope.drawing.projection import Projection, join_lines, to_array
from mnemoscope.drawing.shades import category_colours, condition_colours
from mnemoscope.lenses.recording.result import Recording

Colouring = str | tuple[str, ...] | Condition
"""Names of the conditions of a recording that colour its trajectories, or a condition with a value for each."""
MOST_TRIALS = 12
"""Single trials of each condition that are drawn behind their mean."""


@dataclass(frozen=True)
class ConditionPaths:
    """The trajectories of one combination of conditions."""

    label: str
    colour: str
    mean: np.ndarray
    """(time, size)"""
    trials: np.ndarray
    """Some single trials (trials, time, size); none if there is only one."""
    condition: bool = True
    """Whether these are trials of one condition, whose mean is worth a line; False for all trials together."""


def as_recording(trajectories: Recording | Tensor, colour: Colouring | None) -> tuple[Recording, tuple[str, ...]]:
    """Return trajectories (time, batch, size) as a recording, and the names of the conditions that colour it."""
    if not isinstance(trajectories, Recording):
        if colour is not None and not isinstance(colour, Condition):
            raise ValueError(
                f"colour={colour!r} is the name of a condition, but the trajectories are a tensor without conditions: "
                f"pass the recording of ms.record_activity(network, inputs, table), or a Condition as colour."
            )
        trajectories = Recording(trajectories.detach().double().cpu())
    if isinstance(colour, Condition):
        return Recording(trajectories.activity, TrialTable((colour,))), (colour.name,)
    return trajectories, () if colour is None else (colour,) if isinstance(colour, str) else tuple(colour)


def condition_paths(recording: Recording, names: tuple[str, ...], colours: Colours) -> list[ConditionPaths]:
    """Return the trajectories of every combination of values of these conditions; of all trials without names."""
    groups = recording.table.groups(*names) if names else {"all trials": torch.arange(recording.trials)}
    means = recording.average(*names).activity
    if len(names) == 1:
        shades = condition_colours(recording.table[names[0]], colours)
    else:
        shades = category_colours(len(groups), colours) if names else [colours["path"]]
    paths = []
    for line, (label, members) in enumerate(groups.items()):
        trials = recording.activity[:, members[:MOST_TRIALS]] if len(members) > 1 else recording.activity[:, :0]
        mean, drawn = to_array(means[:, line]), to_array(trials).swapaxes(0, 1)
        paths.append(ConditionPaths(label, shades[line], mean, drawn, bool(names)))
    return paths


def draw_condition_paths(axes: Any, paths: list[ConditionPaths], project: Projection) -> None:
    """Draw single trials as thin lines and the mean of each condition as a thick one that begins at a dot."""
    for path in paths:
        if not path.condition and len(path.trials):
            drawn = join_lines(_coordinates(project, path.trials)).T
            axes.plot(*drawn, color=path.colour, linewidth=0.6, alpha=0.6, zorder=1, label="trajectories")
            continue
        if len(path.trials):
            thin = {"linewidth": 0.5, "alpha": 0.3, "zorder": 1}
            axes.plot(*join_lines(_coordinates(project, path.trials)).T, color=path.colour, **thin)
        mean = _coordinates(project, path.mean)
        axes.plot(*mean.T, color=path.colour, linewidth=1.6, zorder=2, label=path.label)
        axes.plot(*mean[:1].T, linestyle="none", marker="o", markersize=3, color=path.colour, zorder=2)


def _coordinates(project: Projection, states: np.ndarray) -> np.ndarray:
    """Return projected states (..., time, dims); a single coordinate is drawn over time."""
    drawn = project(states)
    if drawn.shape[-1] > 1:
        return drawn
    steps = np.broadcast_to(np.arange(drawn.shape[-2], dtype=float)[:, None], drawn.shape)
    return np.concatenate([steps, drawn], axis=-1)


def finite_states(recording: Recording) -> Float[Tensor, "states size"]:
    """Return all states of a recording that are known completely."""
    states = recording.activity.flatten(0, 1)
    return states[states.isfinite().all(1)]
