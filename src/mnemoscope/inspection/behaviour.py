"""The first sections of a page: the answers of a network on trials, and how far back its loss reaches."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.cells import Cell
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.inspection.gradients import gradient_figure
from mnemoscope.lenses import Behaviour, GradientNorms, gradient_norms
from mnemoscope.lenses.behaviour.figure import CHANNELS, draw_behaviour
from mnemoscope.lenses.behaviour.lens import kind_of, scored_steps
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup
from mnemoscope.report.numbers import pluralise


def behaviour_section(behaviour: Behaviour) -> Section:
    """Return the section with some trials, and the score of every step."""
    drawn = new_figure(11, 7 if behaviour.by_step is not None else 4.6)
    figure = draw_behaviour(behaviour, COLOUR, figure=drawn, font_size=PAGE_FONT_SIZE)
    right, given = ("Circles: the right class", "dots: the answer")
    if behaviour.kind != "classes":
        right, given = "Broad lines: targets, where they count", "thin lines: outputs"
    caption = [f"{right}; {given}."] if behaviour.targets is not None else []
    if behaviour.score is not None:
        caption.append("Dashed: the best constant answer.")
    if max(behaviour.inputs.shape[2], behaviour.outputs.shape[2]) > CHANNELS:
        caption.append(f"The first {CHANNELS} channels are drawn.")
    alt = "Inputs, targets and outputs of some trials over time, and the score of all trials at each step."
    html = figure_markup(figure, "behaviour", alt=alt, caption=" ".join(caption))
    shown = f"{pluralise(behaviour.inputs.shape[1], 'trial')} of {behaviour.trials:,}"
    score = ", and the score of all of them at every step" if behaviour.score is not None else ""
    return Section("Behaviour", f"Inputs and outputs of {shown}{score}.", html)


def measure_gradients(
    cell: Cell,
    encoded: Float[Tensor, "time batch ..."],
    targets: Tensor,
    readout: Callable[[Tensor], Tensor],
    mask: Bool[Tensor, "time batch"] | None,
) -> GradientNorms:
    """Return how much of the loss at the scored steps reaches the state at each step."""
    counts = scored_steps(targets, mask)

    def loss(outputs: Tensor) -> Tensor:
        made = readout(outputs)
        kind, wanted, given = kind_of(targets, made), targets[counts], made[counts]
        if kind == "classes":
            return cross_entropy(given, wanted.long())
        if kind == "bits":
            return binary_cross_entropy_with_logits(given, wanted.to(given))
        return mse_loss(given, wanted.to(given))

    with torch.enable_grad():
        return gradient_norms(cell, encoded, loss)


def gradient_section(gradients: GradientNorms) -> Section:
    """Return the section on how far back the loss reaches."""
    lead = f"How far back the loss reaches through the states. {gradients.summary()}"
    return Section("Gradients of the loss", lead, gradient_figure(gradients, "Mean over the trials."))
