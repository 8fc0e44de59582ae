"""Figure of a slow manifold: the states, the drift along them, and the error of a held value over delays."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from mnemoscope.drawing.axes import Figure, add_space, label_axes, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.drawing.projection import ChosenAxes, Projection, chosen_projection, principal_projection, to_array
from mnemoscope.lenses.fixed_points.figure import MARKERS, groups
from mnemoscope.lenses.recording.paths import Colouring, as_recording, condition_paths, draw_condition_paths
from mnemoscope.lenses.recording.result import Recording
from mnemoscope.lenses.slow_manifold.result import SlowManifold

FLAT = 0.01
"""A principal component with less than this share of the variance is not drawn."""


def draw_slow_manifold(
    result: SlowManifold,
    colours: Colours = LIGHT,
    *,
    trajectories: Recording | Tensor | None = None,
    colour: Colouring | None = None,
    axes: ChosenAxes | None = None,
    figure: Any = None,
    font_size: float = 9,
) -> Figure:
    """Draw the settled states with the fixed points among them, the drift, and predicted and measured errors.

    Args:
        result: the slow manifold.
        colours: colours by name.
        trajectories: a recording, or states (time, batch, size), which are drawn too.
        colour: the condition of the recording by which the trajectories are coloured, one or several names.
        axes: directions by name or numbers of units for the states; by default the components in which they differ.
        figure: an empty figure to draw on.
        font_size: in points.

    """
    paths = [] if trajectories is None else condition_paths(*as_recording(trajectories, colour), colours)
    figure = new_figure(12 if result else 5.5, 4.4) if figure is None else figure
    project = _projection(result) if axes is None else chosen_projection(result.states, axes)
    in_3d = len(project.labels) == 3
    grid = figure.add_gridspec(1, 3 if result else 1, width_ratios=(1.25, 1, 1) if result else (1,))
    left = add_space(figure, len(project.labels), grid[0])
    if paths and len(project.labels) > 1:
        draw_condition_paths(left, paths, project)
    _draw_states(left, result, project, colours)
    label_axes(left, ("state", "") if len(project.labels) == 1 else project.labels, font_size)
    left.set_title(_title(result), fontsize=11)
    if len(project.labels) == 2:
        left.set_aspect("equal", adjustable="datalim")
    panels = [] if in_3d else [left]
    if result:
        panels += [figure.add_subplot(grid[1]), figure.add_subplot(grid[2])]
        _draw_drift(panels[-2], result, project, colours)
        _draw_errors(panels[-1], result, colours)
    for axes in panels:
        style_axes(axes, colours, font_size)
    return figure


def _projection(result: SlowManifold) -> Projection:
    """Return the projection to the components in which the states differ, at least two if there are as many."""
    project = principal_projection(result.states)
    if project.share is None:
        return project
    shown = max(2, sum(share > FLAT for share in project.share))
    return Projection(project.centre, project.axes[:shown], project.share[:shown])


def _title(result: SlowManifold) -> str:
    if not result:
        isolated = f"{result.isolated} isolated points"
        return f"Settled states: {isolated if result.isolated > 1 else 'no slow manifold'}"
    name = result.topology if result.topology != "undecided" else f"dimension {result.dimension}, shape undecided"
    return f"Slow manifold: {name}"


def _flat(points: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return columns for drawing; a single coordinate is drawn on a line."""
    return (points[:, 0], np.zeros(len(points))) if points.shape[1] == 1 else tuple(points.T)


def _draw_states(axes: Any, result: SlowManifold, project: Projection, colours: Colours) -> None:
    states, main = to_array(result.states), result.group.numpy() == 0
    if result and len(result.curve):
        curve = to_array(result.curve)
        curve = np.concatenate([curve, curve[:1]]) if result.topology == "ring" else curve
        axes.plot(*_flat(project(curve)), color=colours["path"], linewidth=1, zorder=1)
    if result and not main.all():
        axes.scatter(*_flat(project(states[~main])), s=9, color=colours["path"], linewidth=0, label="other groups")
        states = states[main]
    if len(states):
        label = "settled states"
        size = 9 if result else 20
        axes.scatter(*_flat(project(states)), s=size, color=colours["slow"], linewidth=0, alpha=0.8, label=label)
    if result and len(result.filled):
        style = {"s": 9, "facecolor": "none", "edgecolor": colours["slow"], "linewidth": 0.5}
        axes.scatter(*_flat(project(to_array(result.filled))), label="states between them", **style)
    if result.fixed_points is not None:
        for group in groups(result.fixed_points):
            points = project(to_array(result.fixed_points.states[group.members]))
            style = {"color": colours[group.key], "edgecolor": "white", "linewidth": 0.6, "s": 46, "zorder": 4}
            label = f"fixed point, {group.label} ({len(group.members)})"
            axes.scatter(*_flat(points), marker=MARKERS[group.kind], label=label, **style)
    if len(states):
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def _draw_drift(axes: Any, result: SlowManifold, project: Projection, colours: Colours) -> None:
    """Draw the drift against the position on a curve, or as arrows on the first two components of a surface."""
    if not len(result.curve):
        states, drift = to_array(result.positions), to_array(result.drift)
        places, arrows = project(states), drift @ project.axes.T
        width = max(float(np.linalg.norm(arrows[:, :2], axis=1).max()), 1e-300)
        axes.quiver(
            places[:, 0], places[:, 1], *(arrows[:, :2] / width).T, color=colours["slow"], width=0.004, scale=12
        )
        axes.set(xlabel=project.labels[0], ylabel=project.labels[1])
        axes.set_title(f"Drift, at most {width:.2g} per step")
        return
    ring = result.topology == "ring"
    scale = 360 / result.range if ring else 1.0
    order = result.positions[:, 0].argsort()
    s, g = scale * to_array(result.positions[order, 0]), scale * to_array(result.drift[order, 0])
    axes.axhline(0, color=colours["line"], linewidth=1, zorder=1)
    axes.plot(s, g, color=colours["slow"], linewidth=1, marker=".", markersize=3, zorder=2)
    for stable in (True, False):
        rests = scale * to_array(result.rests[result.rests_stable == stable])
        if len(rests):
            style = {"s": 42, "zorder": 3, "edgecolor": "white", "linewidth": 0.6}
            colour, marker = (colours["stable"], "o") if stable else (colours["saddle-1"], "D")
            label = f"{'stable' if stable else 'unstable'} rest ({len(rests)})"
            axes.scatter(rests, np.zeros(len(rests)), color=colour, marker=marker, label=label, **style)
    doubtful = scale * to_array(result.doubtful)
    if len(doubtful):
        style = {"s": 30, "zorder": 3, "facecolor": "none", "edgecolor": colours["muted"]}
        axes.scatter(doubtful, np.zeros(len(doubtful)), label=f"uncertain ({len(doubtful)})", **style)
    unit = "degrees" if ring else "arc length"
    axes.set(xlabel=f"position ({unit})", ylabel=f"drift per step ({unit})", title="Drift along it")
    if len(result.rests) + len(doubtful):
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    if ring:
        axes.set_xticks([0, 90, 180, 270, 360])


def _draw_errors(axes: Any, result: SlowManifold, colours: Colours) -> None:
    """Draw predicted and measured error, the bound, and the spread by noise, against the delay."""
    scale, unit = (360, "degrees") if result.topology == "ring" else (100, "% of the range")
    delays = np.array(result.delays)
    dashed = {"color": colours["muted"], "linewidth": 1.2}
    axes.plot(
        delays, scale * result.bound.numpy(), linestyle=(0, (5, 2)), label="bound, delay × largest drift", **dashed
    )
    if np.isfinite(result.diffusion) and np.isfinite(result.stretch):
        by_noise, label = result.noise_errors(delays), f"noise of {result.noise:.2g} per step, at most"
        axes.plot(delays, scale * by_noise, linestyle=(0, (1, 2)), label=label, **dashed)
    axes.plot(delays, scale * result.predicted.numpy(), color=colours["slow"], linewidth=1.8, label="predicted")
    axes.scatter(delays, scale * result.measured.numpy(), color=colours["ink"], s=26, zorder=3, label="measured")
    axes.set_xscale("log")
    scales = [axes.xaxis]
    if float(result.bound.max()) > 1e-9:
        axes.set_yscale("log")
        scales.append(axes.yaxis)
    from matplotlib.ticker import LogLocator, NullFormatter

    for axis in scales:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(lambda value, _: f"{value:g}")  # the page's fonts have no superscripts
        axis.set_minor_formatter(NullFormatter())
    axes.set(xlabel=f"delay ({result.unit})", ylabel=f"mean error ({unit})", title="Error of a held value")
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
