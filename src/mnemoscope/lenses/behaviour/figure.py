"""Figures of behaviour: trials with inputs, targets and outputs, and scores by step, position, delay and span."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mnemoscope.drawing.axes import Figure, label_log_axis, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.behaviour.result import FEWEST_ANSWERS, Behaviour, SpanScores

CHANNELS = 6
"""Most input or output channels that are drawn as lines."""
COLOURS = ("stable", "unstable", "saddle-2", "slow", "marginal", "saddle-1")


def draw_behaviour(
    behaviour: Behaviour, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the kept trials next to each other, and below them the scores by position and by delay."""
    panels = [draw_positions] if has_positions(behaviour) else []
    panels += [draw_delays] if behaviour.shown_delays is not None else []
    figure = new_figure(3.2 * behaviour.inputs.shape[1], 6 if panels else 4) if figure is None else figure
    if not panels:
        return draw_trials(behaviour, colours, figure=figure, font_size=font_size)
    rows: Any = figure.subfigures(2, 1, height_ratios=(5, 2))
    draw_trials(behaviour, colours, figure=rows[0], font_size=font_size)
    for panel, axes in zip(panels, rows[1].subplots(1, len(panels), squeeze=False)[0], strict=True):
        panel(axes, behaviour, colours, font_size)
    return figure


def draw_trials(behaviour: Behaviour, colours: Colours, *, figure: Any, font_size: float) -> Figure:
    """Draw the kept trials next to each other: inputs above, targets and outputs below."""
    trials = behaviour.inputs.shape[1]
    grid = figure.add_gridspec(2, trials, height_ratios=(2, 3))
    top = bottom = None
    for trial in range(trials):
        top = _draw_inputs(figure.add_subplot(grid[0, trial], sharey=top), behaviour, trial, colours)
        bottom = _draw_answers(figure.add_subplot(grid[1, trial], sharey=bottom), behaviour, trial, colours)
        top.set_title(f"trial {trial + 1}", loc="left")
        bottom.set_xlabel("step")
        bottom.locator_params(axis="y", integer=behaviour.kind == "classes")
        if trial == 0:
            top.set_ylabel("inputs")
            bottom.set_ylabel("class" if behaviour.kind == "classes" else "outputs")
        for axes in (top, bottom):
            axes.set_xlim(-0.5, len(behaviour.inputs) - 0.5)
            axes.tick_params(labelleft=trial == 0)
            axes.locator_params(axis="x", integer=True, nbins=5)
            style_axes(axes, colours, font_size)
    return figure


def has_positions(behaviour: Behaviour) -> bool:
    """Return whether a trial has several scored steps, so that its positions can be compared."""
    return behaviour.by_position is not None and len(behaviour.by_position) > 1


def draw_positions(axes: Any, behaviour: Behaviour, colours: Colours, font_size: float) -> None:
    """Draw the score of each step, or of each position among the scored steps if these are only some."""
    assert behaviour.by_position is not None
    assert behaviour.position_answers is not None
    shown = behaviour.position_answers >= min(FEWEST_ANSWERS, behaviour.trials)
    first = 1 if behaviour.positions_differ_from_steps else 0
    places = first + torch.arange(len(shown))[shown]
    _draw_scores(axes, behaviour, places, behaviour.by_position[shown], colours)
    axes.set_xlabel("position among the scored steps" if first else "step")
    style_axes(axes, colours, font_size)


def draw_delays(axes: Any, behaviour: Behaviour, colours: Colours, font_size: float) -> None:
    """Draw the score against the number of steps for which the input has not changed."""
    shown = behaviour.shown_delays
    assert shown is not None
    assert behaviour.by_delay is not None
    _draw_scores(axes, behaviour, shown, behaviour.by_delay[shown], colours)
    axes.set_xlabel("steps since the input last changed")
    style_axes(axes, colours, font_size)


def draw_spans(scores: SpanScores, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9) -> Figure:
    """Draw the accuracy at each span, with a vertical line at the longest span of training."""
    figure = new_figure(7, 3.2) if figure is None else figure
    axes = figure.add_subplot()
    if scores.low is not None and scores.high is not None:
        edges = (scores.low.numpy(), scores.high.numpy())
        axes.fill_between(scores.spans.numpy(), *edges, color=colours["stable"], alpha=0.2, linewidth=0)
    axes.plot(scores.spans.numpy(), scores.accuracy.numpy(), color=colours["stable"], marker="o", markersize=5)
    axes.axvline(scores.trained, color=colours["muted"], linewidth=1, linestyle=(0, (1, 2)))
    if scores.chance is not None:
        axes.plot(scores.spans.numpy(), scores.chance.numpy(), color=colours["muted"], dashes=(4, 2), linewidth=1)
    axes.set(xlabel=scores.label, ylabel="accuracy", ylim=(0, 1.04), xlim=(0, None))
    axes.locator_params(axis="x", integer=True)
    style_axes(axes, colours, font_size)
    return figure


def _draw_scores(axes: Any, behaviour: Behaviour, places: Tensor, scores: Tensor, colours: Colours) -> None:
    """Draw scores over places, with the best constant answer; errors that are all positive on a logarithmic axis."""
    values = behaviour.kind == "values"
    axes.plot(places.numpy(), scores.numpy(), color=colours["stable"], marker=".", markersize=5, linewidth=1.2)
    if behaviour.uninformed is not None:
        axes.axhline(behaviour.uninformed, color=colours["muted"], linestyle=(0, (4, 2)), linewidth=1)
    axes.set_ylabel(behaviour.score_name)
    axes.locator_params(axis="x", integer=True)
    if values and float(scores.nan_to_num(nan=1.0).min()) > 0:
        axes.set_yscale("log")
        label_log_axis(axes)
    else:
        axes.set_ylim(0, None if values else 1.02)


def _draw_inputs(axes: Any, behaviour: Behaviour, trial: int, colours: Colours) -> Any:
    inputs = behaviour.inputs[:, trial]
    if inputs.dim() == 1 or _one_hot(inputs):
        tokens, number = (
            (inputs, int(behaviour.inputs.max()) + 1) if inputs.dim() == 1 else (inputs.argmax(1), len(inputs.T))
        )
        axes.plot(tokens.numpy(), ".", color=colours["muted"], markersize=4)
        axes.set_ylim(-0.5, number - 0.5)
        axes.locator_params(axis="y", integer=True)
        return axes
    for channel in range(min(inputs.shape[1], CHANNELS)):
        axes.plot(inputs[:, channel].numpy(), color=colours[COLOURS[channel]], linewidth=1, drawstyle="steps-mid")
    return axes


def _one_hot(inputs: Tensor) -> bool:
    """Return whether every step names one of several classes."""
    return inputs.shape[1] > 2 and bool(((inputs == 0) | (inputs == 1)).all() and (inputs.sum(1) == 1).all())


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
