"""The sequences of an intervention: inputs time first, classes at the step of the change, and which determine what."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Bool, Int
from mnemoscope.cells import Cell, Lengths, Network, check_finite_inputs, read_inputs
from mnemoscope.lenses.whole_network import Readout, parts_of


@dataclass(frozen=True)
class Sequences:
    """The sequences in which a step follows the change, time first."""

    cell: Cell
    read: Readout
    xs: Tensor
    target: Int[Tensor, " batch"] | None
    """Class of each sequence at the step of the change, numbered from 0 without gaps; -1 for those without one."""
    counts: Bool[Tensor, "time batch"]
    """Whether each step counts."""


def read_sequences(
    network: Network,
    inputs: Tensor,
    variable: Tensor | None,
    at: int,
    readout: Readout | None,
    mask: Tensor | None,
    lengths: Lengths | None,
) -> Sequences:
    """Return the sequences that are longer than the step of the change, with everything that belongs to them."""
    cell, encode, read = parts_of(network, readout)
    given = read_inputs(inputs, batch_first=cell.batch_first, mask=mask)
    present = read_inputs(inputs, batch_first=cell.batch_first, lengths=lengths).mask
    xs = encode(given.xs)
    steps, batch = xs.shape[:2]
    if at > steps - 2:
        raise ValueError(
            f"at must be at most {steps - 2}, so that a step follows it in sequences of {steps} steps, but is {at}. "
            f"Append an input to see the effect on the last answer."
        )
    counts = torch.ones(steps, batch, dtype=torch.bool) if given.mask is None else given.mask.cpu()
    check_finite_inputs(xs, present)
    going_on = torch.ones(batch, dtype=torch.bool)
    if present is not None:
        counts, going_on = counts & present.cpu(), present.cpu()[at + 1]
    target = classes_at(variable, at, steps, batch, cell.batch_first, going_on)
    chosen = None if target is None else target[going_on]
    return Sequences(cell.time_first(), read, xs[:, going_on.to(xs.device)], chosen, counts[:, going_on])


def divided_sequences(
    target: Int[Tensor, " batch"] | None, batch: int, fit_share: float, generator: Generator
) -> tuple[Int[Tensor, " fit"], Int[Tensor, " test"]]:
    """Return the sequences that determine the subspace and those that are tested, with the same shares of classes."""
    fit: list[int] = []
    test: list[int] = []
    groups = (
        [torch.arange(batch)]
        if target is None
        else [(target == number).nonzero()[:, 0] for number in range(int(target.max()) + 1)]
    )
    for number, rows in enumerate(groups):
        if len(rows) < 2:
            what = "sequences" if target is None else f"sequences of the class {number}"
            raise ValueError(f"At least two {what} are needed, one of them to be tested, but there are {len(rows)}.")
        drawn = rows[torch.randperm(len(rows), generator=generator)].tolist()
        first = min(max(round(fit_share * len(rows)), 1), len(rows) - 1)
        fit += drawn[:first]
        test += drawn[first:]
    if len(test) < 2:
        raise ValueError("At least two sequences are tested, so that one can be the donor of the other: pass more.")
    return torch.tensor(sorted(fit)), torch.tensor(sorted(test))


def classes_at(
    variable: Tensor | None, at: int, steps: int, batch: int, batch_first: bool, going_on: Bool[Tensor, " batch"]
) -> Int[Tensor, " batch"] | None:
    """Return the class of each sequence at a step, numbered from 0 without gaps; -1 for those that are left out."""
    if variable is None:
        return None
    given = torch.as_tensor(variable).cpu()
    if given.dim() == 2 and batch_first:
        given = given.T
    if given.shape not in ((batch,), (steps, batch)) or given.is_floating_point():
        layout = f"({batch}, {steps})" if batch_first else f"({steps}, {batch})"
        raise ValueError(
            f"variable must hold whole class numbers, ({batch},) for one per sequence or {layout} for one per step, "
            f"but is {given.dtype} of shape {tuple(torch.as_tensor(variable).shape)}."
        )
    here = (given if given.dim() == 1 else given[at]).long().masked_fill(~going_on, -1)
    classes = here[here >= 0].unique()
    if len(classes) < 2:
        raise ValueError(f"At least two classes are needed at step {at}, but there are {classes.tolist()}.")
    return torch.where(here >= 0, torch.searchsorted(classes, here), -1)
