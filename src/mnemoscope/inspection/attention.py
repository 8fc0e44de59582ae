"""A network that attends to its past: what it attends to, which states it keeps, and how far gradients reach."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.cells import Cell, Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.inspection.gradients import gradient_figure, gradients_before_and_after
from mnemoscope.lenses.attention import Attention, AttentionDependencies, record_attention
from mnemoscope.lenses.attention.bounds import scaled, sparse_bound, uniform_bound
from mnemoscope.lenses.attention.figure import draw_kept, draw_received, draw_scores, draw_weights
from mnemoscope.lenses.gradients import GradientNorms
from mnemoscope.lenses.result import Result
from mnemoscope.memory.attention import Attentive, SparseBacktracking
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.report.numbers import format_number
from mnemoscope.tasks import Task

SEQUENCES = 8
"""Recorded test sequences; each takes time^2 weights. The page shows the first."""


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
        lead = (
            "The attention of sparse attentive backtracking is not recorded. The gradients are those that train the "
            "network: through the recurrent state they stop after some steps; beyond that they pass through attention "
            "alone."
        )
        return Section("Gradients", lead, gradient_figure(self.gradients, self.gradients.summary()))

    def summary(self) -> str:
        """Return the findings in sentences."""
        return " ".join(result.summary() for result in (self.attention, self.gradients) if result is not None)

    def results(self) -> dict[str, Result | None]:
        """Return the results that are saved next to the page."""
        return {"gradients": self.gradients, "attention": self.attention}


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


def attention_section(attention: Attention, gradients: GradientNorms) -> Section:
    """Return the section with the attention along the first sequence, and with the gradients of the loss.

    Of several networks in `gradients`, the last is the one that attends.
    """
    dependencies = attention.dependencies()
    parts = [_attention_figure(attention)]
    if attention.scores is not None:
        parts += [_relevance_figure(attention), _table(attention)]
    parts.append(_gradients_with_bounds(attention, dependencies, gradients))
    return Section("Attention", f"{attention.summary()} {dependencies.summary()}", "\n".join(parts))


def _attention_figure(attention: Attention) -> str:
    alt = "Attention weight of each step on each earlier state"
    figure = new_figure(7.2, 3.5)
    left, right = figure.subplots(1, 2)
    draw_weights(left, attention, 0, COLOUR, PAGE_FONT_SIZE)
    if attention.scores is None:
        draw_received(right, attention, 0, COLOUR, PAGE_FONT_SIZE)
        caption = (
            "One sequence. Left: attention of each step. Right: total attention that each state received; earlier "
            "states are in memory for longer."
        )
        return figure_markup(figure, "attention", alt=f"{alt}, and the total for each state.", caption=caption)
    draw_kept(right, attention, 0, COLOUR, PAGE_FONT_SIZE)
    right.set_title("In memory")
    caption = (
        f"One sequence. Left: attention of each step. Right: when each state was in memory, grey while it was among "
        f"the {attention.short_term} newest, then coloured by its relevance."
    )
    return figure_markup(figure, "attention", alt=f"{alt}, and when each state was in memory.", caption=caption)


def _relevance_figure(attention: Attention) -> str:
    figure = new_figure(7.2, 3.1)
    draw_scores(figure.add_subplot(), attention, 0, COLOUR, PAGE_FONT_SIZE)
    caption = (
        "The relevance of a state is the attention that it received while it was new. When it is no longer among the "
        "newest, it replaces the least relevant state if it is more relevant."
    )
    alt = "Relevance of each state, and how long it was kept."
    return figure_markup(figure, "relevance", alt=alt, caption=caption)


def _table(attention: Attention) -> str:
    assert attention.scores is not None
    last = int(attention.last[0])
    held = attention.chosen[last, :, 0].nonzero().flatten().tolist()
    if not held:
        return ""
    rows = [
        (
            str(state),
            format_number(float(attention.scores[state, 0])),
            str(int(attention.chosen[:, state, 0].nonzero()[0])),
            f"{float(attention.weights[last, state, 0]):.1%}",
        )
        for state in held
    ]
    headings = ("State of step", "Relevance", "Kept from step", f"Attention at step {last}")
    return table_markup("Relevant states held at the end", headings, rows)


def _gradients_with_bounds(attention: Attention, dependencies: AttentionDependencies, gradients: GradientNorms) -> str:
    norms = gradients.norms[-1].nanmean(1)
    if len(norms) != len(attention):
        raise ValueError(
            f"Gradients and attention must be of the same sequences, but one has {len(norms)} steps and the other "
            f"{len(attention)}."
        )
    if not float(norms[-1]) > 0:  # there is no norm to fit the constant to
        return gradient_figure(gradients, gradients.summary())
    caption = (
        f"{gradients.summary()} Dashed: lower bounds of the theory, where d is the number of attention weights above "
        f"the threshold on the way to the last step (at most {int(dependencies.skips.max())}), each taken as 1/κ, "
        f"κ = {dependencies.sparsity}. Each theoretical line has one free constant, fitted to the norm at the last "
        f"step."
    )
    return gradient_figure(gradients, caption, bounds=_bounds(attention, dependencies, norms))


def _bounds(attention: Attention, dependencies: AttentionDependencies, norms: Tensor) -> dict[str, Tensor]:
    """Return the bounds by name, for the sequence whose path has the most weights at each step."""
    skips = dependencies.skips.amax(1).clamp(min=0)
    bounds = {"1/κᵈ": scaled(sparse_bound(dependencies.sparsity, skips), norms)}
    if attention.scores is None:
        bounds["1/T"] = scaled(uniform_bound(len(norms)), norms)
    return bounds
