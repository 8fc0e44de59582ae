"""Figures of a recording: mean activity of single units over time, or trajectories in a space of two or three axes."""

from __future__ import annotations

from typing import Any, Literal

import torch

from mnemoscope.drawing.axes import Figure, add_space, label_axes, new_figure, style_axes
from mnemoscope.drawing.palette import CATEGORIES, LIGHT, Colours
from mnemoscope.drawing.projection import ChosenAxes, chosen_projection, principal_projection
from mnemoscope.lenses.recording.paths import (
    Colouring,
    as_recording,
    condition_paths,
    draw_condition_paths,
    finite_states,
)
from mnemoscope.lenses.recording.result import Recording

UNITS = 6
"""Most units that are drawn, those whose activity varies most between the lines."""


def draw_recording(
    recording: Recording,
    colours: Colours = LIGHT,
    *,
    colour: Colouring | None = None,
    axes: ChosenAxes | Literal["components"] | None = None,
    figure: Any = None,
    font_size: float = 9,
) -> Figure:
    """Draw the mean activity of each condition, one line for each combination of values.

    Args:
        recording: the activity.
        colours: colours by name.
        colour: name or names of the conditions; the first one of the table by default.
        axes: None for the units whose means differ most, over time. For trajectories instead: "components" for
            principal components, directions by name ({"choice": readout.weight[0]}), or numbers of units.
        figure: an empty figure to draw on.
        font_size: in points.

    """
    colour = colour if colour is not None else recording.table.names[:1] or None
    recording, names = as_recording(recording, colour)
    if axes is not None:
        return _draw_trajectories(recording, names, axes, colours, figure, font_size)
    return _draw_units(recording, names, colours, figure, font_size)


def _draw_trajectories(
    recording: Recording, names: tuple[str, ...], axes: Any, colours: Colours, figure: Any, font_size: float
) -> Figure:
    figure = new_figure(6.4, 5.2) if figure is None else figure
    states = finite_states(recording)
    project = principal_projection(states) if axes == "components" else chosen_projection(states, axes)
    labels = ("step", *project.labels) if len(project.labels) == 1 else project.labels
    in_3d = len(labels) == 3
    space = add_space(figure, len(labels))
    draw_condition_paths(space, condition_paths(recording, names, colours), project)
    label_axes(space, labels, font_size)
    if not in_3d:
        style_axes(space, colours, font_size)
    if names:
        figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=font_size - 1)
    return figure


def _draw_units(
    recording: Recording, names: tuple[str, ...], colours: Colours, figure: Any, font_size: float
) -> Figure:
    """Draw the units whose means differ most; epochs that are the same in all trials begin at thin lines."""
    means, paths = recording.average(*names), condition_paths(recording, names, colours)
    shown = means.activity.nan_to_num().var((0, 1), correction=0).argsort(descending=True)[:UNITS].tolist()
    figure = new_figure(2.6 * len(shown), 2.4) if figure is None else figure
    time = (recording.table.step or 1) * torch.arange(len(means.activity)).numpy()
    for axes, unit in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for path in paths:
            shade = path.colour if path.condition else colours["ink"]
            axes.plot(time, path.mean[:, unit], color=shade, linewidth=1.2, label=path.label)
        for epoch in means.table.epochs:
            axes.axvline((recording.table.step or 1) * int(epoch.starts[0]), color=colours["line"], linewidth=1)
        axes.set(title=f"unit {unit}", xlabel="step" if recording.table.step is None else "time (ms)")
        style_axes(axes, colours, font_size)
    if names and len(paths) <= len(CATEGORIES):
        figure.axes[0].legend(frameon=False, fontsize=font_size - 1)
    return figure
