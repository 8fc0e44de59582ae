"""Sections about a Turing machine: its tape, its heads, its gradients, and its fixed points on a uniform tape."""

from __future__ import annotations

from dataclasses import replace

import torch

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.lenses.gradients.figure import draw_gradients
from mnemoscope.lenses.gradients.result import GradientNorms
from mnemoscope.lenses.tape import Tape, UniformFixedPoints
from mnemoscope.lenses.tape.figure import draw_tape
from mnemoscope.report.document import Section
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.tasks import Batch

TITLE = "The tape"


def tape_section(
    tape: Tape,
    batch: Batch,
    *,
    gradients: GradientNorms | None = None,
    parts: GradientNorms | None = None,
    shapes: tuple[tuple[int, int] | None, tuple[int, int] | None] = (None, None),
) -> Section:
    """Return the section with the tape of a machine along the longest sequence of a batch.

    Args:
        tape: the tape recorded along the batch.
        batch: a batch of a task. Outputs are shown where the mask is True, logits of bits as the probability of a 1.
        gradients: of the loss, of one or more networks.
        parts: of the loss, by part of the state.
        shapes: of inputs and of outputs that are matrices.

    """
    figures = [_tape_figure(tape, batch, longest_sequence(batch), shapes), *_gradient_figures(gradients, parts)]
    return Section(TITLE, tape.summary(), "\n".join(figures))


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


def longest_sequence(batch: Batch) -> int:
    """Return the sequence whose last target comes latest."""
    last = torch.arange(len(batch.mask))[:, None] * batch.mask
    return int(last.amax(0).argmax())


def _tape_figure(
    tape: Tape, batch: Batch, sample: int, shapes: tuple[tuple[int, int] | None, tuple[int, int] | None]
) -> str:
    outputs, bits = tape.outputs, batch.targets.dtype == torch.bool
    if outputs.shape[:2] != batch.mask.shape:
        raise ValueError(
            f"Tape and batch must be of the same sequences, but one has (time, batch) = {tuple(outputs.shape[:2])} and "
            f"the other {tuple(batch.mask.shape)}."
        )
    outputs = (outputs.sigmoid() if bits else outputs).masked_fill(~batch.mask[..., None], torch.nan)
    figure = draw_tape(
        replace(tape, outputs=outputs),
        sample,
        COLOUR,
        input_shape=shapes[0],
        output_shape=shapes[1],
        probabilities=bits,
        width=7.2,
        font_size=PAGE_FONT_SIZE,
    )
    tiles = tape.memory.dim() == 5
    caption = (
        f"One sequence. {'Matrices are tiled in order, row by row. ' * tiles}Outputs are shown at the steps that count"
        f"{', as probabilities of a 1' * bits}. Below: the tape after the last step, and the weights of the heads at "
        f"every step. The tape is a ring; its longest run of unused slots is not drawn, and the others start after it."
    )
    alt = "Inputs, outputs and added contents over time; the final tape; weights of the heads over time."
    return figure_markup(figure, "tape", alt=alt, caption=caption)


def _gradient_figures(gradients: GradientNorms | None, parts: GradientNorms | None) -> list[str]:
    figures = []
    alt = "Norm of the gradient of the loss with respect to the state of each step"
    if gradients is not None:
        figure = draw_gradients(gradients, COLOUR, figure=new_figure(7.2, 3.6), font_size=PAGE_FONT_SIZE)
        figures.append(figure_markup(figure, "gradients", alt=f"{alt}.", caption=gradients.summary()))
    if parts is not None:
        figure = draw_gradients(parts, COLOUR, figure=new_figure(7.2, 3.6), font_size=PAGE_FONT_SIZE)
        figures.append(figure_markup(figure, "parts", alt=f"{alt}, by its parts.", caption=_describe_parts(parts)))
    return figures


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
