"""The first sections of a page: answers of a network on trials, by position and delay, and gradients of its loss."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.plurals import pluralise
from mnemoscope.cells import Cell
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, PHONE_WIDTH
from mnemoscope.inspection.gradients import gradient_figure
from mnemoscope.lenses import Behaviour, GradientNorms, gradient_norms
from mnemoscope.lenses.behaviour.figure import CHANNELS, draw_delays, draw_positions, draw_trials, has_positions
from mnemoscope.lenses.behaviour.result import FEWEST_ANSWERS
from mnemoscope.lenses.behaviour.scores import kind_of, scored_steps
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup


def behaviour_sections(behaviour: Behaviour) -> list[Section]:
    """Return the sections with some trials, and with the scores by position and by delay where they are known."""
    sections = [_trials_section(behaviour)]
    if has_positions(behaviour):
        sections.append(_positions_section(behaviour))
    if behaviour.shown_delays is not None:
        sections.append(_delays_section(behaviour))
    return sections


def _trials_section(behaviour: Behaviour) -> Section:
    figure = draw_trials(behaviour, COLOUR, figure=new_figure(8.4, 4.2), font_size=PAGE_FONT_SIZE)
    right, given = ("Circles: the right class", "dots: the answer")
    if behaviour.kind != "classes":
        right, given = "Broad lines: targets, where they count", "thin lines: outputs"
    caption = [f"{right}; {given}."] if behaviour.targets is not None else []
    features = behaviour.inputs.shape[2] if behaviour.inputs.dim() == 3 else 0
    if behaviour.kind != "classes" and max(features, behaviour.outputs.shape[2]) > CHANNELS:
        caption.append(f"The first {CHANNELS} channels are drawn.")
    alt = "Inputs, targets and outputs of some trials over time."
    html = figure_markup(figure, "behaviour", alt=alt, caption=" ".join(caption))
    shown = f"{pluralise(behaviour.inputs.shape[1], 'trial')} of {behaviour.trials:,}"
    return Section("Behaviour", f"Inputs and outputs of {shown}.", html)


def _positions_section(behaviour: Behaviour) -> Section:
    figure = new_figure(PHONE_WIDTH, 3)
    draw_positions(figure.add_subplot(), behaviour, COLOUR, PAGE_FONT_SIZE)
    partly = behaviour.positions_differ_from_steps
    places = "position among the scored steps of a trial" if partly else "step"
    caption = f"Mean over {behaviour.trials:,} trials. Dashed: the best constant answer."
    html = figure_markup(figure, "positions", alt=f"{behaviour.score_name} at each {places}.", caption=caption)
    title = "Error" if behaviour.kind == "values" else "Accuracy"
    return Section(f"{title} by position", f"The {behaviour.score_name} at each {places}.", html)


def _delays_section(behaviour: Behaviour) -> Section:
    figure = new_figure(PHONE_WIDTH, 3)
    draw_delays(figure.add_subplot(), behaviour, COLOUR, PAGE_FONT_SIZE)
    caption = f"Delays with at least {FEWEST_ANSWERS} scored steps in all trials. Dashed: the best constant answer."
    html = figure_markup(figure, "delays", alt=f"{behaviour.score_name} against the delay.", caption=caption)
    title = "Error" if behaviour.kind == "values" else "Accuracy"
    lead = "The delay is the number of steps for which the input has not changed, within the trials above."
    return Section(f"{title} against delay", lead, html)


def measure_gradients(
    cell: Cell,
    encoded: Float[Tensor, "time batch ..."],
    targets: Tensor,
    readout: Callable[[Tensor], Tensor],
    mask: Bool[Tensor, "time batch"] | None,
    lengths: Int[Tensor, " batch"] | None = None,
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
        return gradient_norms(cell, encoded, loss, lengths=lengths)


def gradient_section(gradients: GradientNorms) -> Section:
    """Return the section on how far back the loss reaches."""
    if not bool((gradients.norms > 0).any()):
        reason = "The gradient of the loss is 0 at every step: the answers are exact, or do not depend on the states."
        return Section("Gradients of the loss", reason, "")
    lead = f"How far back the loss reaches through the states. {gradients.summary()}"
    caption = "Mean over the trials. A small gradient does not exclude a memory: a saturated state holds without one."
    return Section("Gradients of the loss", lead, gradient_figure(gradients, caption))
