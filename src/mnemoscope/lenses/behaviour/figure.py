"""Figure of behaviour: some trials with inputs, targets and outputs, and the score of every step."""

from __future__ import annotations

from typing import Any

import torch

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.behaviour.result import Behaviour

CHANNELS = 6
"""Most input or output channels that are drawn as lines."""
COLOURS = ("stable", "unstable", "saddle-2", "slow", "marginal", "saddle-1")


def draw_behaviour(
    behaviour: Behaviour, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the kept trials next to each other, and below them the score at each step."""
    trials, scored = behaviour.inputs.shape[1], behaviour.by_step is not None
    figure = new_figure(3.2 * trials, 6 if scored else 4) if figure is None else figure
    grid = figure.add_gridspec(3 if scored else 2, trials, height_ratios=(2, 3, 2)[: 3 if scored else 2])
    top = bottom = None
    for trial in range(trials):
        top = _draw_inputs(figure.add_subplot(grid[0, trial], sharey=top), behaviour, trial, colours)
        bottom = _draw_answers(figure.add_subplot(grid[1, trial], sharey=bottom), behaviour, trial, colours)
        top.set_title(f"trial {trial + 1}", loc="left")
        if trial == 0:
            top.set_ylabel("inputs")
            bottom.set_ylabel("class" if behaviour.kind == "classes" else "outputs")
        for axes in (top, bottom):
            axes.xaxis.get_major_locator().set_params(integer=True)
            style_axes(axes, colours, font_size)
    if behaviour.by_step is not None:
        axes = figure.add_subplot(grid[2, :])
        axes.plot(behaviour.by_step.numpy(), color=colours["stable"], marker=".", markersize=3, linewidth=1.2)
        values = behaviour.kind == "values"
        if behaviour.uninformed is not None:
            axes.axhline(behaviour.uninformed, color=colours["muted"], linestyle=(0, (4, 2)), linewidth=1)
        axes.set(xlabel="step", ylabel="mean square error" if values else "accuracy")
        axes.locator_params(axis="x", integer=True)
        if values and float(behaviour.by_step.nan_to_num(nan=1.0).min()) > 0:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")  # the page's fonts have no superscripts
        else:
            axes.set_ylim(0, None if values else 1.02)
        style_axes(axes, colours, font_size)
    return figure


def _draw_inputs(axes: Any, behaviour: Behaviour, trial: int, colours: Colours) -> Any:
    inputs = behaviour.inputs[:, trial]
    for channel in range(min(inputs.shape[1], CHANNELS)):
        axes.plot(inputs[:, channel].numpy(), color=colours[COLOURS[channel]], linewidth=1, drawstyle="steps-mid")
    return axes


def _draw_answers(axes: Any, behaviour: Behaviour, trial: int, colours: Colours) -> Any:
    """Draw targets broad and pale, outputs thin on top; for classes the right and the given answer at each step."""
    outputs, counts = behaviour.outputs[:, trial], None if behaviour.scored is None else behaviour.scored[:, trial]
    targets = None if behaviour.targets is None else behaviour.targets[:, trial]
    if behaviour.kind == "classes" and targets is not None and counts is not None:
        steps = counts.nonzero().flatten()
        axes.plot(steps, targets[steps], "o", color=colours["path"], markersize=6, fillstyle="none")
        axes.plot(steps, outputs.argmax(1)[steps], ".", color=colours["stable"], markersize=4)
        return axes
    for channel in range(min(outputs.shape[1], CHANNELS)):
        colour = colours[COLOURS[channel]]
        if targets is not None and counts is not None:
            shown = targets[:, channel].double().masked_fill(~counts, torch.nan)
            shown = 2 * shown - 1 if behaviour.kind == "bits" else shown
            axes.plot(shown.numpy(), color=colour, linewidth=5, alpha=0.25, solid_capstyle="butt")
        axes.plot(outputs[:, channel].detach().numpy(), color=colour, linewidth=1)
    return axes
