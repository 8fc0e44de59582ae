"""Findings about a Turing machine: its tape on the task, and the parts of the state that gradients pass through."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from mnemoscope.cells import Cell, Layout, Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection.gradients import gradients_before_and_after
from mnemoscope.lenses import GradientNorms, Tape, gradient_norms, record_tape
from mnemoscope.report import Section
from mnemoscope.report.tape import tape_section
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
        shapes = (self.shape, self.shape)
        return tape_section(self.tape, self.batch, gradients=self.gradients, parts=self.parts, shapes=shapes)

    def summary(self) -> str:
        """Return the findings in sentences."""
        return f"{self.tape.summary()} {self.gradients.summary()}"

    def save(self, page: Path) -> None:
        """Write all results next to the page."""
        self.tape.save(page.with_name(f"{page.stem}.tape.safetensors"))
        self.gradients.save(page.with_name(f"{page.stem}.gradients.safetensors"))
        self.parts.save(page.with_name(f"{page.stem}.parts.safetensors"))


def inspect_tape(model: Model, task: Task, config: RunConfig) -> TapeFindings:
    """Record the tape of a trained machine on the longest test sequences, and the gradients of its loss."""
    batches = (task.batch(SEQUENCES, config.seed, number, "test") for number in range(BATCHES))
    batch = max(batches, key=lambda batch: len(batch.mask))
    precise = deepcopy(model).double()
    with torch.no_grad():
        xs = precise.encode(batch.inputs.double())
    return TapeFindings(
        tape=record_tape(model, batch.inputs),
        batch=batch,
        gradients=gradients_before_and_after(config, task, model, batch),
        parts=gradient_norms(precise.cell, xs, lambda outputs: task.loss(precise.readout(outputs), batch), by="part"),
        shape=task.shape if isinstance(task, MatrixItems) else None,
    )


def is_large(machine: Cell) -> bool:
    """Return whether the page of a machine lists only the fixed points with equal slots."""
    return Layout(machine.initial_state(1)).size > LARGEST
