"""What `mnemoscope inspect` shows of a network that attends to its past, in place of fixed points."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from mnemoscope.cells import Cell, Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection.gradients import before_and_after
from mnemoscope.lenses.attention import Attention, record_attention
from mnemoscope.lenses.gradients import GradientNorms
from mnemoscope.memory.attention import Attentive, SparseBacktracking
from mnemoscope.report import Section
from mnemoscope.report.attention import attention_section, gradients_section
from mnemoscope.tasks import Task

SEQUENCES = 8
"""That are looked at; of each, time^2 weights are recorded."""


@dataclass(frozen=True)
class AttentionSeen:
    """What a trained network attends to on its task, and what of the loss reaches back."""

    gradients: GradientNorms
    """Before and after training."""
    attention: Attention | None
    """None of sparse attentive backtracking, whose attention is not recorded."""

    def section(self) -> Section:
        """The section of the page."""
        if self.attention is not None:
            return attention_section(self.attention, self.gradients)
        return gradients_section(
            self.gradients,
            "The attention of sparse attentive backtracking is not recorded. Gradients are those that it learns by: "
            "through the recurrent state they end after some steps, and beyond that go through attention alone.",
        )

    def summary(self) -> str:
        """The result in words."""
        return " ".join(([] if self.attention is None else [self.attention.summary()]) + [self.gradients.summary()])

    def save(self, page: Path) -> None:
        """Write both beside the page."""
        self.gradients.save(page.with_name(f"{page.stem}.gradients.safetensors"))
        if self.attention is not None:
            self.attention.save(page.with_name(f"{page.stem}.attention.safetensors"))


def look_at_attention(model: Model, task: Task, config: RunConfig) -> AttentionSeen:
    """The attention of a trained network along test sequences, and the gradients before and after training."""
    batch = task.batch(SEQUENCES, config.seed, 0, "test")
    both = before_and_after(config, task, model, batch)
    cell = model.cell
    if isinstance(cell, Attentive) and isinstance(cell.past, SparseBacktracking):
        return AttentionSeen(both, None)
    with torch.no_grad():
        return AttentionSeen(both, record_attention(cell, model.encode(batch.inputs)))


def without_fixed_points(cell: Cell) -> str | None:
    """Why a page lists no fixed points of such a cell, in a sentence; None where it does.

    Of a screen no fixed point stands alone: its relevant states keep their place while their scores are at least those
    of the states that leave the buffer, so that larger scores, at least, make other fixed points.
    """
    if cell.grows:
        return (
            "The network stores more and more of its past: its state grows from step to step, and has no fixed points."
        )
    if isinstance(cell, Attentive):
        return (
            "The network keeps what it found relevant, whatever that is, until something more relevant comes: its "
            "fixed points are never isolated, and are not searched for."
        )
    return None
