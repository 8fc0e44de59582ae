"""Figure of a reduction: the flow of the latent variables with the trajectories of the network on it."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.drawing.projection import to_array
from mnemoscope.lenses.fixed_points.figure import MARKERS, groups
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.low_rank.result import Reduction

SHOWN = 12
"""Trajectories that are drawn."""
DENSITY = 0.9
"""Density of streamlines, as matplotlib counts it; drawing them takes half a second at 0.5."""


def draw_reduction(
    result: Reduction,
    trajectories: Float[Tensor, "time batch size"] | None = None,
    colours: Colours = LIGHT,
    *,
    figure: Any = None,
    font_size: float = 9,
) -> Figure:
    """Draw the latent variables of the network on the flow of the exact reduction, and on that of the mean field.

    Args:
        result: the reduction.
        trajectories: other states of the network to draw instead of those of the result.
        colours: colours by name.
        figure: an empty figure to draw on.
        font_size: size of the text in points.

    """
    figure = new_figure(11, 4.4) if figure is None else figure
    latents = result.latents if trajectories is None else result.project(trajectories)
    shown = to_array(latents)[:, :SHOWN]
    left, right = figure.subplots(1, 2)
    if result.rank == 1:
        _draw_speed(left, result, colours)
        _draw_over_time(right, result, shown, trajectories is None, colours)
    elif result.rank == 2:
        _draw_plane(left, result, result.flow, result.fixed_points, shown, colours)
        left.set_title(f"Exact reduction, {result.size} units")
        mean = shown if trajectories is not None else to_array(result.mean_field)[:, :SHOWN]
        _draw_plane(right, result, result.mean_field_flow, result.mean_field_points, mean, colours)
        right.set_title("Mean field")
    else:
        _draw_over_time(left, result, shown, trajectories is None, colours)
        left.set_title("First latent variable")
        right.plot(shown[..., 0], shown[..., 1], color=colours["path"], linewidth=0.8)
        _draw_points(right, result.fixed_points, colours)
        right.set(xlabel="κ1", ylabel="κ2", title=f"First two of {result.rank} latent variables")
    for axes in (left, right):
        style_axes(axes, colours, font_size)
    return figure


def _draw_speed(axes: Any, result: Reduction, colours: Colours) -> None:
    """Draw the change of kappa in one step against kappa."""
    grid = to_array(result.grid)[:, 0]
    axes.axhline(0, color=colours["line"], linewidth=0.8)
    axes.plot(
        grid, to_array(result.flow)[:, 0], color=colours["ink"], linewidth=1.4, label=f"{result.size} units, exact"
    )
    axes.plot(grid, to_array(result.mean_field_flow)[:, 0], color=colours["slow"], linestyle="--", label="mean field")
    _draw_points(axes, result.fixed_points, colours)
    _draw_points(axes, result.mean_field_points, colours, hollow=True)
    axes.set(xlabel="κ", ylabel="change of κ per step", title="Flow of the latent variable")
    axes.legend(frameon=False)


def _draw_over_time(axes: Any, result: Reduction, shown: np.ndarray, compared: bool, colours: Colours) -> None:
    style = {"linewidth": 1.4, "alpha": 0.9}
    axes.plot(shown[..., 0], color=colours["path"], **style)
    handles = [axes.plot([], [], color=colours["path"], label="network, projected")[0]]
    if compared:
        mean = to_array(result.mean_field)[:, :SHOWN, 0]
        axes.plot(mean, color=colours["slow"], linestyle="--", linewidth=1)
        handles += axes.plot([], [], color=colours["slow"], linestyle="--", label="mean field")
    axes.set(xlabel="step", ylabel="κ" if result.rank == 1 else "κ1", title="Latent variable along trajectories")
    axes.legend(handles=handles, frameon=False)


def _draw_plane(
    axes: Any, result: Reduction, flow: Tensor, fp: FixedPoints, paths: np.ndarray, colours: Colours
) -> None:
    """Draw a flow in two dimensions as streamlines, with trajectories and fixed points."""
    points = round(len(result.grid) ** 0.5)
    grid, arrows = (to_array(part).reshape(points, points, 2).transpose(1, 0, 2) for part in (result.grid, flow))
    x, y = grid[0, :, 0], grid[:, 0, 1]
    style: dict[str, Any] = {"color": colours["line"], "linewidth": 0.7, "arrowsize": 0.7, "density": DENSITY}
    axes.streamplot(x, y, arrows[..., 0], arrows[..., 1], **style)
    axes.plot(paths[..., 0], paths[..., 1], color=colours["path"], linewidth=0.9)
    axes.scatter(*paths[0].T, s=6, color=colours["muted"], zorder=3)
    _draw_points(axes, fp, colours)
    axes.set(xlabel="κ1", ylabel="κ2", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    axes.legend(frameon=False, loc="upper right")


def _draw_points(axes: Any, fp: FixedPoints, colours: Colours, hollow: bool = False) -> None:
    for group in groups(fp):
        states = to_array(fp.states[group.members])
        y = np.zeros(len(states)) if states.shape[1] == 1 else states[:, 1]
        colour = colours[group.key]
        style = {"facecolor": "none" if hollow else colour, "edgecolor": colour if hollow else "white"}
        label = None if hollow else f"{group.label} ({len(states)})"
        axes.scatter(
            states[:, 0], y, marker=MARKERS[group.kind], s=90 if hollow else 46, zorder=4, label=label, **style
        )
