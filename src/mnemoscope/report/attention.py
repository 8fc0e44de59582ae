"""Sections about a network that attends to its past: attention, kept states, and gradients of the loss."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.lenses.attention import (
    Attention,
    AttentionDependencies,
    linear_norms,
    scaled,
    sparse_bound,
    uniform_bound,
)
from mnemoscope.lenses.attention.figure import draw_kept, draw_received, draw_scores, draw_weights
from mnemoscope.lenses.gradients.figure import draw_gradients
from mnemoscope.lenses.gradients.result import GradientNorms
from mnemoscope.report.document import Section
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.report.numbers import format_number

TITLE = "Attention"


def attention_section(
    attention: Attention,
    gradients: GradientNorms | None = None,
    *,
    sample: int = 0,
    threshold: float | None = None,
    matrix: Float[Tensor, "size size"] | None = None,
) -> Section:
    """Return the section with the attention of a network.

    Args:
        attention: the recorded attention.
        gradients: of the loss along the same sequences; if of several networks, the last is the one that attends.
        sample: index of the sequence that is shown.
        threshold: of weights that count for sparsity and dependency depth, as in `Attention.dependencies`.
        matrix: the recurrent matrix of the inner cell, times its `scale`. If given, the norms of a linear network with
            this matrix and this attention are shown too; this takes time^2 size^2 operations.

    """
    dependencies = attention.dependencies(threshold)
    parts = [_attention_figure(attention, sample)]
    if attention.scores is not None:
        parts += [_relevance_figure(attention, sample), _table(attention, sample)]
    if gradients is not None:
        linear = None if matrix is None else linear_norms(matrix, attention.weights[:, :, sample])
        parts.append(_gradients_with_bounds(attention, dependencies, gradients, linear))
    return Section(TITLE, f"{attention.summary()} {dependencies.summary()}", "\n".join(parts))


def gradients_section(gradients: GradientNorms, lead: str) -> Section:
    """Return the section with gradients only; `lead` is its first sentence."""
    return Section("Gradients", lead, _gradient_figure(gradients, {}, ()))


def _attention_figure(attention: Attention, sample: int) -> str:
    alt = "Attention weight of each step on each earlier state"
    figure = new_figure(7.2, 3.5)
    left, right = figure.subplots(1, 2)
    draw_weights(figure, left, attention, sample, COLOUR, PAGE_FONT_SIZE)
    if attention.scores is None:
        draw_received(right, attention, sample, COLOUR, PAGE_FONT_SIZE)
        caption = (
            "One sequence. Left: attention of each step. Right: total attention that each state received; earlier "
            "states are in memory for longer."
        )
        return figure_markup(figure, "attention", alt=f"{alt}, and the total for each state.", caption=caption)
    draw_kept(figure, right, attention, sample, COLOUR, PAGE_FONT_SIZE)
    right.set_title("In memory")
    caption = (
        f"One sequence. Left: attention of each step. Right: when each state was in memory, grey while it was among "
        f"the {attention.short_term} newest, then coloured by its relevance."
    )
    return figure_markup(figure, "attention", alt=f"{alt}, and when each state was in memory.", caption=caption)


def _relevance_figure(attention: Attention, sample: int) -> str:
    figure = new_figure(7.2, 3.1)
    draw_scores(figure.add_subplot(), attention, sample, COLOUR, PAGE_FONT_SIZE)
    caption = (
        "The relevance of a state is the attention that it received while it was new. When it is no longer among the "
        "newest, it replaces the least relevant state if it is more relevant."
    )
    alt = "Relevance of each state, and how long it was kept."
    return figure_markup(figure, "relevance", alt=alt, caption=caption)


def _table(attention: Attention, sample: int) -> str:
    assert attention.scores is not None
    last = int(attention.last[sample])
    held = attention.chosen[last, :, sample].nonzero().flatten().tolist()
    if not held:
        return ""
    rows = [
        (
            str(state),
            format_number(float(attention.scores[state, sample])),
            str(int(attention.chosen[:, state, sample].nonzero()[0])),
            f"{float(attention.weights[last, state, sample]):.1%}",
        )
        for state in held
    ]
    headings = ("State of step", "Relevance", "Kept from step", f"Attention at step {last}")
    return table_markup("Relevant states held at the end", headings, rows)


def _gradients_with_bounds(
    attention: Attention,
    dependencies: AttentionDependencies,
    gradients: GradientNorms,
    linear: Float[Tensor, " time"] | None,
) -> str:
    norms = gradients.norms[-1].nanmean(1)
    if len(norms) != len(attention):
        raise ValueError(
            f"Gradients and attention must be of the same sequences, but one has {len(norms)} steps and the other "
            f"{len(attention)}."
        )
    bounds: dict[str, Tensor] = {}
    if float(norms[-1]) > 0:  # otherwise there is no norm to fit the constant to
        bounds = _bounds(attention, dependencies, norms)
        bounds |= {} if linear is None else {"linear, this attention": scaled(linear / linear[-1], norms)}
    caption = []
    if bounds:
        caption.append(
            f"Dashed: lower bounds of the theory, where d is the number of attention weights above the threshold on "
            f"the way to the last step (at most {int(dependencies.skips.max())}), each taken as 1/κ, "
            f"κ = {dependencies.sparsity}. Each theoretical line has one free constant, fitted to the norm at the last "
            f"step."
        )
    return _gradient_figure(gradients, bounds, caption)


def _gradient_figure(gradients: GradientNorms, bounds: dict[str, Tensor], notes: Sequence[str]) -> str:
    figure = draw_gradients(gradients, COLOUR, bounds=bounds, figure=new_figure(7.2, 3.6), font_size=PAGE_FONT_SIZE)
    alt = "Norm of the gradient of the loss with respect to each hidden state, over the steps."
    return figure_markup(figure, "gradients", alt=alt, caption=" ".join([gradients.summary(), *notes]))


def _bounds(attention: Attention, dependencies: AttentionDependencies, norms: Tensor) -> dict[str, Tensor]:
    """Return the bounds by name, for the sequence whose path has the most weights at each step."""
    skips = dependencies.skips.amax(1).clamp(min=0)
    bounds = {"1/κᵈ": scaled(sparse_bound(dependencies.sparsity, skips), norms)}
    if attention.scores is None:
        bounds["1/T"] = scaled(uniform_bound(len(norms)), norms)
    return bounds
