"""What a Turing machine wrote to its tape, where its heads were, and which way gradients took."""

from __future__ import annotations

from dataclasses import replace

import torch

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.lenses.gradients.figure import draw_gradients
from mnemoscope.lenses.gradients.result import GradientNorms
from mnemoscope.lenses.tape import EvenRests, Tape
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
    """The section with the tape of a machine along the longest sequence of a batch.

    Args:
        tape: what was written and read, along the batch.
        batch: of a task. Outputs are shown where something is due, logits of bits as the chance of a 1.
        gradients: of the loss, of several networks side by side.
        parts: of the loss, by the parts of the state.
        shapes: of inputs and of outputs that are matrices.

    """
    sample = longest(batch)
    return Section(
        TITLE, tape.summary(), "\n".join([_tape(tape, batch, sample, shapes), *_gradients(gradients, parts)])
    )


def rests_section(rests: EvenRests) -> Section:
    """The section with the fixed points of a machine whose tape is the same in all slots."""
    headings = ("Point", "Unstable directions", "Slots together", "Slots apart", "Largest, together", "Largest, apart")
    rows = [
        (str(point), *map(str, counts), *(f"{value:.6g}" for value in largest))
        for point, (counts, largest) in enumerate(
            zip(
                torch.stack([rests.unstable, rests.unstable - rests.unstable_apart, rests.unstable_apart], 1).tolist(),
                rests.largest.tolist(),
                strict=True,
            )
        )
    ]
    lead = (
        "Where the machine can rest with the same in all slots: unstable directions of each point, of disturbances "
        "that are the same in all slots (together) and of others (apart), and by what a step multiplies the least "
        "stable of either. Above 1, it grows."
    )
    table = table_markup("Fixed points on an even tape", headings, rows) if rows else ""
    return Section("Fixed points on an even tape", lead if rows else rests.summary(), table)


def longest(batch: Batch) -> int:
    """The sequence in which something is due last."""
    last = torch.arange(len(batch.mask))[:, None] * batch.mask
    return int(last.amax(0).argmax())


def _tape(tape: Tape, batch: Batch, sample: int, shapes: tuple[tuple[int, int] | None, tuple[int, int] | None]) -> str:
    outputs, bits = tape.outputs, batch.targets.dtype == torch.bool
    if outputs.shape[:2] != batch.mask.shape:
        raise ValueError(
            f"Tape and batch must be of the same sequences, but one has (time, batch) = {tuple(outputs.shape[:2])} and "
            f"the other {tuple(batch.mask.shape)}."
        )
    outputs = (outputs.sigmoid() if bits else outputs).masked_fill(~batch.mask[..., None], torch.nan)
    figure = draw_tape(
        replace(tape, outputs=outputs), sample, COLOUR,
        input_shape=shapes[0], output_shape=shapes[1], chances=bits, width=7.2, font_size=PAGE_FONT_SIZE,
    )  # fmt: skip
    tiles = tape.memory.dim() == 5
    caption = (
        f"One sequence. {'Matrices stand in order, row by row. ' * tiles}Inputs come step by step; outputs "
        f"are shown where they are due{', as chances of a 1' * bits}. "
        f"Below, what lies on the tape after the last step, and where heads were at each. The tape is a ring: the "
        f"longest run of slots to which no head came is left out, and the others begin behind it."
    )
    alt = "Inputs, outputs and what was written over time; the tape at the end; weights of the heads over time."
    return figure_markup(figure, "tape", alt=alt, caption=caption)


def _gradients(gradients: GradientNorms | None, parts: GradientNorms | None) -> list[str]:
    found = []
    alt = "Norm of the gradient of the loss with respect to the state of each step"
    if gradients is not None:
        figure = draw_gradients(gradients, COLOUR, figure=new_figure(7.2, 3.6), font_size=PAGE_FONT_SIZE)
        found.append(figure_markup(figure, "gradients", alt=f"{alt}.", caption=gradients.summary()))
    if parts is not None:
        figure = draw_gradients(parts, COLOUR, figure=new_figure(7.2, 3.6), font_size=PAGE_FONT_SIZE)
        found.append(figure_markup(figure, "parts", alt=f"{alt}, by its parts.", caption=_ways(parts)))
    return found


def _ways(parts: GradientNorms) -> str:
    """By which part of the state most of the gradient arrives, in words."""
    squares = parts.norms.square().nanmean(2)
    shares = squares / squares.sum(0)
    words = [
        f"at the {when} step most of it is at the {parts.names[int(share.argmax())]} ({float(share.max()):.0%} of its "
        f"square)"
        for when, share in (("first", shares[:, 0]), ("last", shares[:, -1]))
    ]
    return (
        f"After training, by the parts of the state: {', '.join(words)}. "
        f"Memory that is nearly empty has large gradients: the cosine of a short slot with a key turns with every "
        f"small change."
    )
