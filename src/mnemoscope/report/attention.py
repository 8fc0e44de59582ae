"""What a network attends to, which states it keeps and why, and what of a loss reaches back."""

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
    """The section with the attention of a network.

    Args:
        attention: what it attended to.
        gradients: of its loss along the same sequences; of several networks the last is that of the attention.
        sample: the sequence that is shown.
        threshold: of weights that count for sparsity and dependency depth, as in `Attention.dependencies`.
        matrix: the recurrent matrix of the inner cell, times its `scale`: shows the norms of a linear network with it
            and with this attention too; time^2 size^2 operations.

    """
    seen = attention.dependencies(threshold)
    parts = [_map(attention, sample)]
    if attention.scores is not None:
        parts += [_why(attention, sample), _table(attention, sample)]
    if gradients is not None:
        linear = None if matrix is None else linear_norms(matrix, attention.weights[:, :, sample])
        parts.append(_gradients(attention, seen, gradients, linear))
    return Section(TITLE, _lead(attention, seen), "\n".join(parts))


def gradients_section(gradients: GradientNorms, lead: str) -> Section:
    """The section with gradients alone; `lead` is its first sentence."""
    return Section("Gradients", lead, _norms(gradients, {}, ()))


def _lead(attention: Attention, seen: AttentionDependencies) -> str:
    return f"{attention.summary()} {seen.summary()}"


def _map(attention: Attention, sample: int) -> str:
    alt = "Weight of the attention of each step to each state before it"
    figure = new_figure(7.2, 3.5)
    left, right = figure.subplots(1, 2)
    draw_weights(figure, left, attention, sample, COLOUR, PAGE_FONT_SIZE)
    if attention.scores is None:
        draw_received(right, attention, sample, COLOUR, PAGE_FONT_SIZE)
        caption = (
            "One sequence. Left: what each step attends to. Right: the attention that each state received in all; "
            "earlier states are there for longer."
        )
        return figure_markup(figure, "attention", alt=f"{alt}, and what each state received in all.", caption=caption)
    draw_kept(figure, right, attention, sample, COLOUR, PAGE_FONT_SIZE)
    right.set_title("In memory")
    caption = (
        f"One sequence. Left: what each step attends to. Right: when each state lay in memory, grey while it was among "
        f"the {attention.short_term} newest, and then coloured by its relevance."
    )
    return figure_markup(figure, "attention", alt=f"{alt}, and when each state lay in memory.", caption=caption)


def _why(attention: Attention, sample: int) -> str:
    figure = new_figure(7.2, 3.1)
    draw_scores(figure.add_subplot(), attention, sample, COLOUR, PAGE_FONT_SIZE)
    caption = (
        "Why: a state's relevance is the attention that it received while it was new. When it leaves the newest, it "
        "takes the place of the least relevant one, if it is more relevant."
    )
    return figure_markup(figure, "relevance", alt="Relevance of each state, and what became of it.", caption=caption)


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
    return table_markup("Relevant states that are held at the end", headings, rows)


def _gradients(
    attention: Attention, seen: AttentionDependencies, gradients: GradientNorms, linear: Float[Tensor, " time"] | None
) -> str:
    norms = gradients.norms[-1].nanmean(1)
    if len(norms) != len(attention):
        raise ValueError(
            f"Gradients and attention must be of the same sequences, but one has {len(norms)} steps and the other "
            f"{len(attention)}."
        )
    bounds: dict[str, Tensor] = {}
    if float(norms[-1]) > 0:  # else there is nothing at the last step to fit the constant to
        bounds = _bounds(attention, seen, norms)
        bounds |= {} if linear is None else {"linear, this attention": scaled(linear / linear[-1], norms)}
    caption = []
    if bounds:
        caption.append(
            f"Dashed: how far gradients may fade by the theory, d being the number of attention weights above the "
            f"threshold on the way to the last step ({int(seen.skips.max())} at most), each taken for 1/κ, "
            f"κ = {seen.sparsity}. All lines of the theory have one free constant, fitted at the last step, to the "
            f"norm there."
        )
    return _norms(gradients, bounds, caption)


def _norms(gradients: GradientNorms, bounds: dict[str, Tensor], notes: Sequence[str]) -> str:
    figure = draw_gradients(gradients, COLOUR, bounds=bounds, figure=new_figure(7.2, 3.6), font_size=PAGE_FONT_SIZE)
    alt = "Norm of the gradient of the loss with respect to each hidden state, over the steps."
    return figure_markup(figure, "gradients", alt=alt, caption=" ".join([gradients.summary(), *notes]))


def _bounds(attention: Attention, seen: AttentionDependencies, norms: Tensor) -> dict[str, Tensor]:
    """Of all sequences, the way with the most weights."""
    bounds = {"1/κᵈ": scaled(sparse_bound(seen.sparsity, seen.skips.amax(1).clamp(min=0)), norms)}
    if attention.scores is None:
        bounds["1/T"] = scaled(uniform_bound(len(norms)), norms)
    return bounds
