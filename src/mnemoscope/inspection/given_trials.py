"""The trials on which any network is inspected: checked inputs with their targets, and the lenses that read both."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.cells import Cell, Inputs, Lengths, Model, check_finite_inputs, read_inputs
from mnemoscope.cells.sequence import without_masked
from mnemoscope.inspection.behaviour import measure_gradients
from mnemoscope.inspection.held_classes import HeldClass
from mnemoscope.lenses import Behaviour, GradientNorms, record_behaviour
from mnemoscope.lenses.behaviour.scores import check_targets, scored_steps
from mnemoscope.lenses.intervention.sequences import Readout, classes_at


@dataclass(frozen=True)
class GivenTrials:
    """Trials on which a network is inspected."""

    inputs: Inputs
    """Inputs and their padding, time first."""
    targets: Tensor | None
    """Right answers, in the layout of the network."""
    mask: Tensor | None
    """Steps that count, in the layout of the network."""
    batch_first: bool
    """Whether that layout is batch first."""

    @property
    def lengths(self) -> Tensor | None:
        """Number of steps of each trial, if they differ."""
        return None if self.inputs.mask is None else self.inputs.mask.sum(0)

    def behaviour(self, network: Model | Cell, readout: Readout | None) -> Behaviour:
        """Record what the network answers, in its own layout, which error messages use."""
        xs = self.inputs.xs.transpose(0, 1) if self.batch_first else self.inputs.xs
        return record_behaviour(network, xs, self.targets, readout=readout, mask=self.mask, lengths=self.lengths)

    def gradients(self, model: Model | None, cell: Cell, readout: Readout | None) -> GradientNorms:
        """Follow the loss back through time, for a network that takes sequences time first."""
        targets, mask = self._time_first()
        assert targets is not None
        answer = model.readout if model is not None else readout or nn.Identity()
        padding = self.inputs.mask
        counts = mask if padding is None else padding & (True if mask is None else mask)
        return measure_gradients(cell, encoded(model, self.inputs.xs), targets, answer, counts, self.lengths)

    def held_class(self, variable: Tensor, at: int | None, model: Model | None) -> HeldClass:
        """Return the inputs of the cell with the class of each trial; half of the shortest trial is before the change.

        Answers are read as the targets are, and as values without targets.
        """
        xs = self.inputs.xs
        steps, batch = xs.shape[:2]
        present = torch.ones(steps, batch, dtype=torch.bool) if self.inputs.mask is None else self.inputs.mask.cpu()
        at = max(int(present.sum(0).min()) // 2 - 1, 0) if at is None else at
        if not 0 <= at < steps - 1:
            raise ValueError(f"at must be from 0 to {steps - 2}, so that a step follows it, but is {at}.")
        classes = classes_at(variable, at, steps, batch, self.batch_first, present[at + 1])
        targets, mask = self._time_first()
        counts = present if mask is None else present & mask.cpu()
        answers: str = "values"
        if targets is not None:
            counts = counts & scored_steps(targets, None).cpu()
            answers = "bits" if targets.dtype == torch.bool else answers if targets.is_floating_point() else "classes"
        assert classes is not None
        return HeldClass("the given variable", encoded(model, xs), classes, at, counts, answers).shortened()

    def _time_first(self) -> tuple[Tensor | None, Tensor | None]:
        """Return targets and mask, time first."""
        if not self.batch_first:
            return self.targets, self.mask
        targets, mask = (None if part is None else part.transpose(0, 1) for part in (self.targets, self.mask))
        return targets, mask


def read_trials(
    inputs: Tensor | PackedSequence | None,
    targets: Tensor | None,
    mask: Tensor | None,
    lengths: Lengths | None,
    cell: Cell,
    model: Model | None,
) -> GivenTrials | None:
    """Return the trials of a call, checked and on one device; None without inputs."""
    given = None if inputs is None else _checked_inputs(inputs, lengths, cell, model)
    check_targets(targets, mask)
    if given is None:
        if targets is not None or lengths is not None:
            raise ValueError("Targets and lengths belong to inputs; pass the inputs too.")
        return None
    targets, mask = (None if part is None else part.to(given.xs.device) for part in (targets, mask))
    return GivenTrials(given, targets, mask, cell.batch_first)


def _checked_inputs(
    inputs: Tensor | PackedSequence, lengths: Lengths | None, cell: Cell, model: Model | None
) -> Inputs:
    """Return the trials time first, with zeros in place of padding."""
    if isinstance(inputs, Tensor):
        _check_dimensions(inputs, cell.batch_first)
    given = read_inputs(inputs, batch_first=cell.batch_first, lengths=lengths)
    check_finite_inputs(given.xs, given.mask)
    xs = without_masked(given.xs, given.mask)
    expected = getattr(cell, "input_size", None)
    if model is None and expected is not None and xs.shape[2] != expected:
        raise ValueError(
            f"The network takes {expected} features, but the inputs have {xs.shape[2]} in the last dimension."
        )
    weight = next(cell.parameters(), None)
    return replace(given, xs=xs if weight is None or xs.is_complex() else xs.to(weight))


def _check_dimensions(inputs: Tensor, batch_first: bool) -> None:
    axes, one_trial = ("batch, time", "inputs[None]") if batch_first else ("time, batch", "inputs[:, None]")
    if inputs.dim() == 2:
        raise ValueError(
            f"inputs must have three dimensions, ({axes}, features), but have the shape {tuple(inputs.shape)}. For one "
            f"trial: {one_trial}."
        )
    if inputs.dim() != 3:
        raise ValueError(f"inputs must be ({axes}, features), but have the shape {tuple(inputs.shape)}.")


def encoded(model: Model | None, inputs: Tensor) -> Tensor:
    """Return the inputs of the cell."""
    with torch.no_grad():
        return inputs if model is None else model.encode(inputs)
