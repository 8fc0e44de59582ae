"""What `mnemoscope inspect` shows of a Turing machine: its tape along the task, and which way gradients take."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import torch

from mnemoscope.cells import Cell, Layout, Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection.gradients import before_and_after
from mnemoscope.lenses import GradientNorms, Tape, gradient_norms, record_tape
from mnemoscope.report import Section
from mnemoscope.report.tape import tape_section
from mnemoscope.tasks import Batch, Task
from mnemoscope.tasks.bits import MatrixItems

SEQUENCES, BATCHES = 8, 8
"""That are looked at, in the longest of so many batches."""
LARGEST = 200
"""Numbers in the state of a machine of which a page looks for all fixed points: some 100 take a minute of one CPU core.
Of larger ones it lists those at which all slots hold the same (`even_rests`)."""
POOL = 4
"""States on the way that are starts of that search."""


@dataclass(frozen=True)
class TapeSeen:
    """What a trained machine does with its tape, and what of the loss reaches back."""

    tape: Tape
    batch: Batch
    gradients: GradientNorms
    """Before and after training."""
    parts: GradientNorms
    """After training, by the parts of the state."""
    shape: tuple[int, int] | None = None
    """Of inputs and outputs that are matrices."""

    def section(self) -> Section:
        """The section of the page."""
        shapes = (self.shape, self.shape)
        return tape_section(self.tape, self.batch, gradients=self.gradients, parts=self.parts, shapes=shapes)

    def summary(self) -> str:
        """The result in words."""
        return f"{self.tape.summary()} {self.gradients.summary()}"

    def save(self, page: Path) -> None:
        """Write all of it beside the page."""
        self.tape.save(page.with_name(f"{page.stem}.tape.safetensors"))
        self.gradients.save(page.with_name(f"{page.stem}.gradients.safetensors"))
        self.parts.save(page.with_name(f"{page.stem}.parts.safetensors"))


def look_at_tape(model: Model, task: Task, config: RunConfig) -> TapeSeen:
    """The tape of a trained machine along test sequences, as long as there are, and gradients of its loss."""
    batches = (task.batch(SEQUENCES, config.seed, number, "test") for number in range(BATCHES))
    batch = max(batches, key=lambda one: len(one.mask))
    exact = deepcopy(model).double()
    with torch.no_grad():
        xs = exact.encode(batch.inputs.double())
    parts = gradient_norms(exact.cell, xs, lambda outputs: task.loss(exact.readout(outputs), batch), by="part")
    shape = task.shape if isinstance(task, MatrixItems) else None
    return TapeSeen(record_tape(model, batch.inputs), batch, before_and_after(config, task, model, batch), parts, shape)


def is_large(machine: Cell) -> bool:
    """Whether a page lists only those fixed points of a machine at which all slots hold the same."""
    return Layout(machine.initial_state(1)).size > LARGEST
