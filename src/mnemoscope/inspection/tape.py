"""A Turing machine: its tape on the task, the parts of its state that gradients pass through, and its fixed points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from mnemoscope.cells import Cell, Layout, Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.inspection.gradients import gradient_figure, gradients_before_and_after, task_gradients
from mnemoscope.lenses import GradientNorms, Tape, record_tape
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.tape import UniformFixedPoints
from mnemoscope.lenses.tape.figure import draw_tape
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.tasks import Batch, Task
from mnemoscope.tasks.bit_task import MatrixItems

SEQUENCES, BATCHES = 8, 8
"""Sequences that are recorded, from the longest of this many batches."""
LARGEST = 200
"""Numbers in the largest state for which a page lists all fixed points: about 100 take a minute on one CPU core. For
larger states it lists those with equal slots (`find_uniform_fixed_points`)."""
POOL = 4
"""Visited states from which that search starts."""


@dataclass(frozen=True)
class TapeFindings:
    """Tape of a trained machine on its task, and the gradient that reaches each step."""

    lenses: ClassVar[tuple[str, ...]] = ("tape", "gradients")
    """Names of the lenses in use, for citations."""

    tape: Tape
    batch: Batch
    gradients: GradientNorms
    """Before and after training."""
    parts: GradientNorms
    """After training, by part of the state."""
    shape: tuple[int, int] | None = None
    """Shape of inputs and outputs that are matrices."""

    def section(self) -> Section:
        """Return the section of the page."""
        figures = [
            tape_figure(self.tape, self.batch, self.shape),
            gradient_figure(self.gradients, self.gradients.summary()),
            gradient_figure(self.parts, _describe_parts(self.parts), "parts"),
        ]
        return Section("The tape", self.tape.summary(), "\n".join(figures))

    def summary(self) -> str:
        """Return the findings in sentences."""
        return f"{self.tape.summary()} {self.gradients.summary()}"

    def results(self) -> dict[str, Result | None]:
        """Return the results that are saved next to the page."""
        return {"tape": self.tape, "gradients": self.gradients, "parts": self.parts}


def inspect_tape(model: Model, task: Task, config: RunConfig) -> TapeFindings:
    """Record the tape of a trained machine on the longest test sequences, and the gradients of its loss."""
    batches = (task.batch(SEQUENCES, config.seed, number, "test") for number in range(BATCHES))
    batch = max(batches, key=lambda batch: len(batch.mask))
    return TapeFindings(
        tape=record_tape(model, batch.inputs),
        batch=batch,
        gradients=gradients_before_and_after(config, task, model, batch),
        parts=task_gradients(task, model, batch, by="part"),
        shape=task.shape if isinstance(task, MatrixItems) else None,
    )


def is_large(machine: Cell) -> bool:
    """Return whether the page of a machine lists only the fixed points with equal slots."""
    return Layout(machine.initial_state(1)).size > LARGEST


def uniform_fixed_points_section(points: UniformFixedPoints) -> Section:
    """Return the section with the fixed points of a machine at which all slots are equal."""
    title = "Fixed points on a uniform tape"
    if not len(points):
        return Section(title, points.summary(), "")
    headings = ("Point", "Unstable directions", "Equal slots", "Unequal slots", "Largest, equal", "Largest, unequal")
    counts = torch.stack([points.unstable, points.unstable - points.unstable_waves, points.unstable_waves], 1)
    rows = [
        (str(point), *map(str, directions), *(f"{value:.6g}" for value in largest))
        for point, (directions, largest) in enumerate(zip(counts.tolist(), points.largest.tolist(), strict=True))
    ]
    lead = (
        "Points at which the machine can rest while all its slots are equal. The table counts the unstable directions "
        "in which slots stay equal and those in which they become unequal, and gives the factor by which a step "
        "multiplies the least stable perturbation of each sort; above 1, it grows."
    )
    return Section(title, lead, table_markup(title, headings, rows))


def tape_figure(tape: Tape, batch: Batch, shape: tuple[int, int] | None = None) -> str:
    """Return the markup of the tape along the longest sequence of the batch on which it was recorded.

    Outputs are shown where the mask is True, logits of bits as the probability of a 1. `shape` is that of inputs and
    outputs that are matrices.
    """
    outputs, bits = tape.outputs, batch.targets.dtype == torch.bool
    if outputs.shape[:2] != batch.mask.shape:
        raise ValueError(
            f"Tape and batch must be of the same sequences, but one has (time, batch) = {tuple(outputs.shape[:2])} and "
            f"the other {tuple(batch.mask.shape)}."
        )
    outputs = (outputs.sigmoid() if bits else outputs).masked_fill(~batch.mask[..., None], torch.nan)
    style = {"shape": shape, "probabilities": bits, "width": 7.2, "font_size": PAGE_FONT_SIZE}
    figure = draw_tape(replace(tape, outputs=outputs), longest_sequence(batch), COLOUR, **style)
    tiles = tape.memory.dim() == 5
    caption = (
        f"One sequence. {'Matrices are tiled in order, row by row. ' * tiles}Outputs are shown at the steps that count"
        f"{', as probabilities of a 1' * bits}. Below: the tape after the last step, and the weights of the heads at "
        f"every step. The tape is a ring; its longest run of unused slots is not drawn, and the others start after it."
    )
    alt = "Inputs, outputs and added contents over time; the final tape; weights of the heads over time."
    return figure_markup(figure, "tape", alt=alt, caption=caption)


def longest_sequence(batch: Batch) -> int:
    """Return the sequence whose last target comes latest."""
    last = torch.arange(len(batch.mask))[:, None] * batch.mask
    return int(last.amax(0).argmax())


def _describe_parts(parts: GradientNorms) -> str:
    """Return which part of the state receives most of the gradient, in sentences."""
    squares = parts.norms.square().nanmean(2)
    shares = squares / squares.sum(0)
    largest = [
        f"at the {step} step most of it is with respect to the {parts.names[int(share.argmax())]} "
        f"({float(share.max()):.0%} of the squared norm)"
        for step, share in (("first", shares[:, 0]), ("last", shares[:, -1]))
    ]
    return (
        f"The gradient after training, by the parts of the state: {', '.join(largest)}. Nearly empty memory has large "
        f"gradients: the cosine between a short slot vector and a key is sensitive to small changes."
    )
