"""The page sections on single units and single trials: selectivity, rotations in the delay, tensor components.

Each section states why its lens cannot be applied, and draws a figure only of what the control of the lens supports.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.lenses import (
    Recording,
    Rotations,
    Selectivity,
    TensorComponents,
    find_rotations,
    measure_selectivity,
    tensor_components,
)
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.rotations.figure import PLANES, draw_rotations
from mnemoscope.lenses.selective_units.figure import draw_selectivity
from mnemoscope.lenses.trial_tensor.figure import draw_tensor
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup

PERMUTATIONS = 200
"""Permutations of the trials for selectivity; the smallest probability is 1 / 201."""
SURROGATES = 50
"""Surrogates of rotations."""
RANKS = (1, 2, 3)
"""Numbers of tensor components that are tried."""
RESTARTS = 3
ITERATIONS = 200
"""Most updates of a fit of tensor components."""
MOST_TRIALS = 40
"""Trials to which tensor components are fitted."""
LEVEL = 0.05
"""Probability below which rotations exceed those of surrogates."""
EVEN = 0.5
"""Share of a unit's variance from which a condition explains most of it."""


@dataclass(frozen=True)
class UnitFindings:
    """Which units depend on which condition, whether activity rotates, and which courses single trials share."""

    selectivity: Selectivity | None = None
    rotations: Rotations | None = None
    tensor: TensorComponents | None = None
    rotations_note: str = ""
    """Where rotations were searched, or why they were not."""
    condition: str | None = None
    """Condition by which single trials are coloured."""

    @property
    def results(self) -> dict[str, Result | None]:
        """The results by name."""
        return {"selectivity": self.selectivity, "rotations": self.rotations, "tensor_components": self.tensor}

    def sections(self) -> list[Section]:
        """Return the sections of the page."""
        found = [] if self.selectivity is None else [_selectivity_section(self.selectivity)]
        found += [_rotations_section(self.rotations, self.rotations_note)] if self.rotations_note else []
        return found + ([] if self.tensor is None else [_tensor_section(self.tensor, self.condition)])


def inspect_units(recording: Recording, conditions: tuple[str, ...], epoch: str | None, seed: int) -> UnitFindings:
    """Return what single units and trials show.

    Args:
        recording: trials of every combination of conditions, with noise.
        conditions: names of the conditions that are compared.
        epoch: the epoch in which the task holds a value, where inputs move the state least; None without one.
        seed: seed of permutations, surrogates and restarts.

    """
    rotations, note = _rotations(recording, conditions, epoch, seed)
    return UnitFindings(
        _selectivity(recording, conditions, seed),
        rotations,
        _tensor(recording, seed),
        note,
        conditions[0] if conditions else None,
    )


def _selectivity(recording: Recording, conditions: tuple[str, ...], seed: int) -> Selectivity | None:
    """Return the selectivity in all epochs that every trial has; None without conditions."""
    if not conditions:
        return None
    epochs = [epoch.name for epoch in recording.table.epochs if bool((epoch.lengths > 0).all())]
    return measure_selectivity(recording, conditions=conditions, epochs=epochs, shuffles=PERMUTATIONS, seed=seed)


def _rotations(
    recording: Recording, conditions: tuple[str, ...], epoch: str | None, seed: int
) -> tuple[Rotations | None, str]:
    """Return rotations in an epoch, and a sentence on which, or on why they were not searched for."""
    if not conditions:
        return None, ""
    if epoch is None:
        return None, "Not searched: the task names no epoch that holds a value, and inputs move the state in others."
    try:
        found = find_rotations(recording.in_epoch(epoch), conditions=conditions, surrogates=SURROGATES, seed=seed)
    except ValueError as error:  # too few steps or combinations, or one direction only
        return None, f"Not searched in the {epoch}. {error}"
    return found, f"In the {epoch}:"


def _tensor(recording: Recording, seed: int) -> TensorComponents:
    """Return as many components as the trials determine: all restarts find them, and the error left out falls."""
    # at random, because conditions recur in the order of trials
    order = torch.randperm(recording.trials, generator=torch.Generator().manual_seed(seed))
    trials = recording.part(order[:MOST_TRIALS].sort().values)
    best: TensorComponents | None = None
    for rank in RANKS:
        found = tensor_components(trials, rank=rank, restarts=RESTARTS, iterations=ITERATIONS, seed=seed)
        same = found.same == len(found.similarities)
        if best is not None and not (same and found.left_out_error < best.left_out_error):
            break
        best = found
    assert best is not None
    return best


def _selectivity_section(found: Selectivity) -> Section:
    width = 1.6 + max(2.6, 1.1 * len(found.epochs)) * len(found.conditions)
    figure = draw_selectivity(found, COLOUR, figure=new_figure(min(width, 11.5), 3.6), font_size=PAGE_FONT_SIZE)
    alt = "Share of each unit's variance that each condition explains in each epoch; selective units in colour."
    strong = "; ".join(
        f"{condition}: "
        + ", ".join(f"{int((share > EVEN).sum())} in {epoch}" for epoch, share in zip(found.epochs, rows, strict=True))
        for condition, rows in zip(found.conditions, found.share, strict=True)
    )
    lead = (
        f"{found.summary()} Where trials have little noise, weak effects count too. Units of whose variance a "
        f"condition explains more than half: {strong}."
    )
    return Section("Selectivity of units", lead, figure_markup(figure, "selectivity", alt=alt))


def _rotations_section(found: Rotations | None, note: str) -> Section:
    if found is None:
        return Section("Rotations", note, "")
    lead = f"{note} {found.summary()[0].lower()}{found.summary()[1:]}"
    if found.probability is None or found.probability >= LEVEL:
        return Section("Rotations", lead, "")
    width = 3.6 * (min(PLANES, len(found.planes)) + 1)
    figure = draw_rotations(found, COLOUR, figure=new_figure(width, 3.8), font_size=PAGE_FONT_SIZE)
    alt = "Paths of the conditions in the planes of rotation, and the fits of data and surrogates."
    return Section("Rotations", lead, figure_markup(figure, "rotations", alt=alt))


def _tensor_section(found: TensorComponents, condition: str | None) -> Section:
    rank = len(found.lengths)
    lead = f"{found.summary()} "
    if rank == 1:
        lead += "Further components are not the same in all restarts, or describe courses left out no better."
        return Section("Courses of single trials", lead, "")
    lead += "Each is a course of time with a weight of each unit and of each trial."
    figure = draw_tensor(
        found, COLOUR, condition=condition, figure=new_figure(11, 1.5 * rank + 1.0), font_size=PAGE_FONT_SIZE
    )
    alt = "Weights of units, courses of time and weights of trials, for each component."
    return Section("Courses of single trials", lead, figure_markup(figure, "tensor", alt=alt))
