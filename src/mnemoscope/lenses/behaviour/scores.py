"""The kind of targets, the score of every answer, and its means by step, by position and by delay."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.validation import check_type

Kind = Literal["values", "bits", "classes", "unknown"]
"""The kind of answers; "unknown" without targets."""
Targets = Tensor
"""(time, batch, outputs) of float values or bool bits, or (time, batch) of class numbers."""


def check_targets(targets: Targets | None, mask: Tensor | None) -> None:
    """Raise unless the targets have one answer for each step, and the mask is bool; in any layout."""
    if targets is not None:
        check_type(Tensor, "a tensor; torch.as_tensor(targets) converts it", targets=targets)
    if targets is not None and targets.dim() < 2:
        raise ValueError(
            f"Targets have the shape {tuple(targets.shape)}, but every step of every trial needs one. If only the last "
            f"step of a trial has an answer, pass -1 (class numbers) or NaN (values) at the other steps."
        )
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"The mask must be bool, True at steps that count, not {mask.dtype}; mask.bool() converts it.")


def kind_of(targets: Targets, outputs: Float[Tensor, "time batch outputs"], *, batch_first: bool = False) -> Kind:
    """Return what the targets are; raise unless they fit the outputs, with shapes in the layout of the caller."""
    axes = "batch, time" if batch_first else "time, batch"
    given, expected = _shape(targets, batch_first), _shape(outputs, batch_first)
    if targets.dtype != torch.bool and not targets.is_floating_point():
        if given != expected[:2]:
            raise ValueError(
                f"Integer targets are class numbers of shape ({axes}) = {expected[:2]}, but have the shape {given}. "
                f"Pass float targets if they are values."
            )
        if int(targets.max()) >= outputs.shape[2]:
            raise ValueError(
                f"The targets name class {int(targets.max())}, but the network has {outputs.shape[2]} outputs. Pass "
                f"the readout, or float targets if they are values."
            )
        return "classes"
    if given != expected:
        remedy = "Pass readout=... if a readout follows the network."
        remedy = "targets[..., None] has it." if (*given, 1) == expected else remedy
        raise ValueError(
            f"Targets have the shape {given}, but the outputs of the network ({axes}, outputs) = {expected}. {remedy}"
        )
    return "bits" if targets.dtype == torch.bool else "values"


def _shape(sequences: Tensor, batch_first: bool) -> tuple[int, ...]:
    """Return the shape of sequences that are time first, in the layout of the caller."""
    return tuple((sequences.transpose(0, 1) if batch_first else sequences).shape)


def scored_steps(targets: Targets, mask: Tensor | None, *, batch_first: bool = False) -> Bool[Tensor, "time batch"]:
    """Return the steps that count: those of the mask whose target is neither NaN nor a negative class."""
    steps = targets.shape[:2]
    if mask is not None and tuple(mask.shape) != tuple(steps):
        axes = "batch, time" if batch_first else "time, batch"
        expected, given = _shape(targets, batch_first)[:2], _shape(mask, batch_first)
        raise ValueError(f"The mask must have the shape ({axes}) = {expected}, not {given}.")
    counts = targets.new_ones(steps, dtype=torch.bool) if mask is None else mask.to(targets.device)
    if targets.is_floating_point():
        counts = counts & ~targets.isnan().any(2)
    elif targets.dtype != torch.bool:
        counts = counts & (targets >= 0)
    if not counts.any():
        raise ValueError("No step counts: the mask is False, or the target NaN or negative, everywhere.")
    return counts


def score_answers(
    kind: Kind, outputs: Float[Tensor, "time batch outputs"], targets: Targets, counts: Bool[Tensor, "time batch"]
) -> Float[Tensor, "time batch"]:
    """Return the squared error or the share of right answers at each step; 0 where a step does not count."""
    if kind == "values":
        scores = (outputs - targets).square().mean(2)
    elif kind == "bits":
        scores = ((outputs > 0) == targets).double().mean(2)
    else:
        scores = (outputs.argmax(2) == targets).double()
    return scores.double().masked_fill(~counts, 0.0)


def uninformed_score(kind: Kind, targets: Targets, counts: Bool[Tensor, "time batch"]) -> float:
    """Return the score of the best constant answer."""
    known = targets[counts]
    if kind == "values":
        return float(known.double().var(0, unbiased=False).mean())
    if kind == "bits":
        shares = known.double().mean(0)
        return float(torch.maximum(shares, 1 - shares).mean())
    return float(known.bincount().max() / len(known))


def positions(counts: Bool[Tensor, "time batch"]) -> Int[Tensor, "time batch"]:
    """Return the position of each scored step among the scored steps of its trial, from 0; -1 at other steps.

    >>> positions(torch.tensor([[False, True], [True, True], [False, False], [True, True]])).T.tolist()
    [[-1, 0, -1, 1], [0, 1, -1, 2]]
    """
    return (counts.long().cumsum(0) - 1).masked_fill(~counts, -1)


def delays(inputs: Tensor, counts: Bool[Tensor, "time batch"]) -> Int[Tensor, "time batch"] | None:
    """Return for how many steps the input has not changed, at each scored step; -1 at other steps.

    None if the step determines the delay, as it does if inputs change at every step or at the same steps in all trials:
    the delay then adds nothing to the scores by step.
    """
    changed = torch.ones_like(counts)
    different = inputs[1:] != inputs[:-1]
    changed[1:] = different.flatten(2).any(2) if inputs.dim() > 2 else different
    time = torch.arange(len(inputs), device=inputs.device).unsqueeze(1)
    since = time - torch.where(changed, time, 0).cummax(0).values
    most = since.masked_fill(~counts, -1).amax(1)
    least = since.masked_fill(~counts, len(inputs)).amin(1)
    return since.masked_fill(~counts, -1) if bool((least < most).any()) else None


def means_by(
    groups: Int[Tensor, "time batch"], scores: Float[Tensor, "time batch"]
) -> tuple[Float[Tensor, " groups"], Int[Tensor, " groups"]]:
    """Return the mean score of each group 0, 1, ..., and its number of answers; group -1 is left out.

    >>> means_by(torch.tensor([[0, 2, -1]]), torch.tensor([[1.0, 0.5, 9.0]]))
    (tensor([1.0000,    nan, 0.5000], dtype=torch.float64), tensor([1, 0, 1]))
    """
    kept = groups >= 0
    groups, scores = groups[kept], scores[kept].double()
    number = groups.bincount()
    sums = torch.zeros(len(number), dtype=torch.float64, device=scores.device).index_add_(0, groups, scores)
    return (sums / number).cpu(), number.cpu()
