"""Axes of a population that follow conditions, by regression: targeted dimensionality reduction."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.lenses.recording.result import Recording

COMPONENTS = 12
"""Principal components to which regression coefficients are reduced, as in Mante et al. (2013)."""


def regression_axes(
    recording: Recording, *conditions: str, components: int = COMPONENTS, orthogonal: bool = True
) -> dict[str, Float[Tensor, " units"]]:
    """Return a direction for each condition along which the activity varies with it (Mante et al. 2013).

    At every step, the activity of each unit is regressed on the conditions, scaled to unit variance. The vector of
    coefficients of a condition, at the step at which it is longest, is its axis.

    Args:
        recording: the activity, of one epoch for example: `recording.in_epoch("stimulus")`.
        conditions: names of conditions with numbers as values. Trials in which one has no value are left out.
        components: number of principal components of the activity to which coefficients are reduced, against noise.
        orthogonal: make the axes orthogonal, by removing from each its part along those named before it.

    >>> import mnemoscope as ms
    >>> motion, colour = torch.cartesian_prod(torch.arange(-2.0, 3.0), torch.arange(-2.0, 3.0)).unbind(1)
    >>> activity = torch.stack([motion, motion + colour, 0 * motion], 1).expand(4, 25, 3).double()
    >>> recording = ms.Recording(activity, ms.TrialTable.of({"motion": motion, "colour": colour}))
    >>> ms.regression_axes(recording, "colour")["colour"].abs().round(decimals=6).tolist()
    [0.0, 1.0, 0.0]

    """
    if not conditions:
        raise ValueError('Name the conditions of the axes: regression_axes(recording, "motion", "choice").')
    check_whole(1, components=components)
    design = _design(recording, conditions)
    known = ~recording.activity.isnan().any(2) & ~design.isnan().any(1)  # (time, trials)
    steps = [step for step in range(len(known)) if int(known[step].sum()) > design.shape[1]]
    if not steps:
        raise ValueError(
            f"No step has more trials, with all units recorded, than the {len(conditions)} conditions and a constant: "
            f"name fewer conditions, or leave units out with recording.select(...)."
        )
    coefficients = torch.stack([_regress(design[known[step]], recording.activity[step, known[step]]) for step in steps])
    states = recording.activity[known]
    axes = torch.linalg.svd(states - states.mean(0), full_matrices=False).Vh[:components]
    coefficients = coefficients @ axes.T @ axes  # (steps, conditions, units)
    longest = coefficients.norm(dim=2).argmax(0)
    vectors = coefficients[longest, torch.arange(len(conditions))]
    result: dict[str, Tensor] = {}
    for name, vector in zip(conditions, vectors, strict=True):
        length = vector.norm()
        for axis in result.values() if orthogonal else ():
            vector = vector - (axis @ vector) * axis
        if float(vector.norm()) <= 1e-9 * max(float(length), 1e-300):
            raise ValueError(f"The activity does not vary with {name!r} in a direction that differs from the others.")
        result[name] = vector / vector.norm()
    return result


def _design(recording: Recording, conditions: tuple[str, ...]) -> Float[Tensor, "trials regressors"]:
    """Return the conditions of each trial, with mean 0 and variance 1, and a constant."""
    columns = []
    for name in conditions:
        values = recording.table[name].values.double()
        present = values[~values.isnan()]
        deviation = float(present.std(correction=0)) if len(present) else 0.0
        if deviation == 0:
            raise ValueError(f"The condition {name!r} has one value in all trials: nothing varies with it.")
        columns.append((values - present.mean()) / deviation)
    return torch.stack([*columns, torch.ones_like(columns[0])], 1)


def _regress(design: Tensor, activity: Tensor) -> Float[Tensor, "conditions units"]:
    """Return the least-squares coefficients, without that of the constant."""
    if int(torch.linalg.matrix_rank(design)) < design.shape[1]:
        raise ValueError("The conditions determine each other in these trials: name fewer, or pass more trials.")
    return torch.linalg.lstsq(design, activity).solution[:-1]
