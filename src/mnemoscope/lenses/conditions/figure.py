"""Figure of results by condition: their states in one projection, with trajectories."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.drawing.axes import Figure, add_space, label_axes, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.drawing.projection import ChosenAxes, Projection, chosen_projection, principal_projection, to_array
from mnemoscope.drawing.shades import category_colours
from mnemoscope.lenses.conditions.result import ByCondition
from mnemoscope.lenses.fixed_points.figure import MARKERS
from mnemoscope.lenses.recording.paths import (
    Colouring,
    as_recording,
    condition_paths,
    draw_condition_paths,
    finite_states,
)
from mnemoscope.lenses.recording.result import Recording

HOLLOW = ("saddle", "unstable")
"""Kinds of points that do not attract, which are drawn without a face."""


def draw_by_condition(
    found: ByCondition,
    trajectories: Recording | Tensor | None = None,
    colours: Colours = LIGHT,
    *,
    colour: Colouring | None = None,
    axes: ChosenAxes | None = None,
    figure: Any = None,
    font_size: float = 9,
) -> Figure:
    """Draw the states of all conditions in one projection: fixed points, cycles, or the states of slow manifolds.

    Args:
        found: results with states, of `find_fixed_points`, `find_slow_manifold`, `find_cycles` or `find_attractors`.
        trajectories: a recording, or states (time, batch, size), which are drawn too.
        colours: colours by name.
        colour: condition of the recording by which the trajectories are coloured, one or several names. If its values
            have the names of the conditions of `found`, both have the same colours.
        axes: directions by name, or numbers of units; by default principal components of all that is drawn.
        figure: an empty figure to draw on.
        font_size: in points.

    """
    unsuited = [name for name, result in found.items() if not isinstance(getattr(result, "states", None), Tensor)]
    if unsuited:
        raise ValueError(
            f"Results of {type(found[unsuited[0]]).__name__} have no states that share a projection: draw each by "
            f"itself, found[{unsuited[0]!r}].figure()."
        )
    recording, names = (None, ()) if trajectories is None else as_recording(trajectories, colour)
    clouds = [result.states.double() for result in found.values()]
    cloud = torch.cat([*clouds, *([] if recording is None else [finite_states(recording)])])
    project = principal_projection(cloud) if axes is None else chosen_projection(cloud, axes)
    labels = (*project.labels, "condition") if len(project.labels) == 1 else project.labels
    figure = new_figure(6.8, 5.6) if figure is None else figure
    space = add_space(figure, len(labels))
    if recording is not None and len(project.labels) > 1:
        draw_condition_paths(space, condition_paths(recording, names, colours), project)
    shades = category_colours(len(found), colours)
    for number, (name, shade) in enumerate(zip(found, shades, strict=True)):
        _draw_states(space, name, found[name], project, shade, number)
    label_axes(space, labels, font_size)
    if len(labels) == 2:
        style_axes(space, colours, font_size)
    if space.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=font_size - 1)
    return figure


def _draw_states(axes: Any, name: str, result: Any, project: Projection, colour: str, row: int) -> None:
    """Draw one marker for each kind; a single coordinate is drawn on one line for each condition."""
    states = project(to_array(result.states))
    if states.shape[1] == 1:
        states = np.concatenate([states, np.full_like(states, row)], axis=1)
    kinds = result.kind if isinstance(getattr(result, "kind", None), list) else ["state"] * len(states)
    if len(kinds) != len(states):  # the states of cycles are more than the cycles
        kinds = ["state"] * len(states)
    names = [getattr(kind, "description", kind) for kind in kinds]
    for kind in dict.fromkeys(names):
        rows = [place for place, other in enumerate(names) if other == kind]
        style = (
            {"facecolor": "none", "edgecolor": colour} if kind in HOLLOW else {"color": colour, "edgecolor": "white"}
        )
        size = 42 if kind in MARKERS else 16
        label = name if kind == "state" else f"{name}: {kind} ({len(rows)})"
        axes.scatter(
            *states[rows].T, marker=MARKERS.get(kind, "o"), s=size, linewidth=0.9, zorder=4, label=label, **style
        )
