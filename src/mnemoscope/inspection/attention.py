"""Findings about a network that attends to its past, in place of fixed points."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from mnemoscope.cells import Cell, Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection.gradients import gradients_before_and_after
from mnemoscope.lenses.attention import Attention, record_attention
from mnemoscope.lenses.gradients import GradientNorms
from mnemoscope.memory.attention import Attentive, SparseBacktracking
from mnemoscope.report import Section
from mnemoscope.report.attention import attention_section, gradients_section
from mnemoscope.tasks import Task

SEQUENCES = 8
"""Recorded test sequences; each takes time^2 weights."""


@dataclass(frozen=True)
class AttentionFindings:
    """Attention of a trained network on its task, and the gradient that reaches each step."""

    gradients: GradientNorms
    """Before and after training."""
    attention: Attention | None
    """None for sparse attentive backtracking, whose attention is not recorded."""

    def section(self) -> Section:
        """Return the section of the page."""
        if self.attention is not None:
            return attention_section(self.attention, self.gradients)
        return gradients_section(
            self.gradients,
            "The attention of sparse attentive backtracking is not recorded. The gradients are those that train the "
            "network: through the recurrent state they stop after some steps; beyond that they pass through attention "
            "alone.",
        )

    def summary(self) -> str:
        """Return the findings in sentences."""
        attention = [] if self.attention is None else [self.attention.summary()]
        return " ".join([*attention, self.gradients.summary()])

    def save(self, page: Path) -> None:
        """Write both results next to the page."""
        self.gradients.save(page.with_name(f"{page.stem}.gradients.safetensors"))
        if self.attention is not None:
            self.attention.save(page.with_name(f"{page.stem}.attention.safetensors"))


def inspect_attention(model: Model, task: Task, config: RunConfig) -> AttentionFindings:
    """Record the attention of a trained network on test sequences, and its gradients before and after training."""
    batch = task.batch(SEQUENCES, config.seed, 0, "test")
    gradients = gradients_before_and_after(config, task, model, batch)
    cell = model.cell
    if isinstance(cell, Attentive) and isinstance(cell.past, SparseBacktracking):
        return AttentionFindings(gradients, None)
    with torch.no_grad():
        return AttentionFindings(gradients, record_attention(cell, model.encode(batch.inputs)))


def why_no_fixed_points(cell: Cell) -> str | None:
    """Return why the page of a cell lists no fixed points, as a sentence; None if it lists them.

    A screen has no isolated fixed points: its relevant states keep their place while their scores are at least those
    of the states that leave the buffer, so larger scores yield further fixed points.
    """
    if cell.grows:
        return "The network stores more of its past at every step: its state grows, so it has no fixed points."
    if isinstance(cell, Attentive):
        return (
            "The network keeps any state that it found relevant until a more relevant one arrives: its fixed points "
            "are never isolated, and are not searched for."
        )
    return None
