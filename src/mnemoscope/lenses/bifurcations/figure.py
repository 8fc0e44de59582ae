"""The figure of a bifurcation diagram (needs the `report` extra)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT
from mnemoscope.lenses.bifurcations.result import BifurcationDiagram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {
    "stable": "stable",
    "saddle-1": "saddle, 1 unstable direction",
    "saddle-2": "saddle, 2 unstable directions",
    "saddle-3": "saddle, 3 or more unstable directions",
    "unstable": "unstable",
    "marginal": "marginal",
}
"""Names of the kinds of points, in the order of the legend."""
MARKERS = {
    "saddle-node": "o",
    "pitchfork": "^",
    "transcritical": "X",
    "flip": "s",
    "Neimark-Sacker": "D",
    "Hopf": "D",
    "double": "P",
    "multiple": "p",
    "unknown": "*",
}
"""Markers of the bifurcations, by name."""
BROKEN = (0, (4, 1.6))
"""Line style of branches that are not stable."""


def draw_bifurcation_diagram(
    diagram: BifurcationDiagram,
    projection: Float[Tensor, " size"] | Sequence[float] | None = None,
    colours: Mapping[str, str] = LIGHT,
    *,
    figure: Any = None,
    font_size: float = 9,
) -> Figure:
    """Draw the states along one direction over the parameter, and below it the number of points at each snapshot.

    Stable branches are solid lines, others are broken. Markers show the events.
    """
    figure = new_figure(8.5, 5.6) if figure is None else figure
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    direction, label = _direction(diagram, projection)
    heights = (diagram.states @ direction).numpy()
    kinds = shown_kinds(diagram)
    drawn: set[str] = set()
    for number in range(len(diagram)):
        points = (diagram.branch == number).nonzero()[:, 0].tolist()
        for kind, rows in _pieces(points, kinds):
            style = {"color": colours.get(kind, colours["path"]), "linewidth": 1.8 if kind == "stable" else 1.3}
            linestyle = "solid" if kind == "stable" else BROKEN
            top.plot(diagram.at[rows].numpy(), heights[rows], linestyle=linestyle, **style)
            drawn.add(kind)
    for event in diagram.events:
        height = _event_height(diagram, event.branches, event.at, heights)
        top.plot(event.at, height, MARKERS[event.name], color=colours["ink"], markersize=4.5, zorder=4)
    _draw_counts(bottom, diagram, colours)
    top.set(ylabel=label, title=f"Fixed points over the {diagram.parameter}")
    bottom.set(xlabel=diagram.parameter, ylabel="points")
    style_axes(top, colours, font_size)
    style_axes(bottom, colours, font_size)
    _draw_legend(figure, diagram, drawn, colours, font_size)
    return figure


def shown_kinds(diagram: BifurcationDiagram) -> list[str]:
    """Return the kind of each point; if not counted, that of the nearest point of the branch with equal index."""
    kinds = list(diagram.kind)
    for row, kind in enumerate(kinds):
        if kind:
            continue
        same = (diagram.branch == diagram.branch[row]) & (diagram.unstable >= 0) & (diagram.index == diagram.index[row])
        rows = same.nonzero()[:, 0]
        if len(rows):
            kinds[row] = diagram.kind[int(rows[(diagram.at[rows] - diagram.at[row]).abs().argmin()])]
    return kinds


def _direction(diagram: BifurcationDiagram, projection: Any) -> tuple[Tensor, str]:
    """Return the direction of the vertical axis, and its label."""
    size = diagram.states.shape[1]
    if projection is not None:
        given = torch.as_tensor(projection, dtype=torch.float64)
        if given.shape != (size,):
            raise ValueError(f"The projection must have shape ({size},), but has {tuple(given.shape)}.")
        return given, "states along the given direction"
    if size == 1:
        return torch.ones(1).double(), "state"
    states = diagram.states[diagram.snapshot >= 0]
    centred = states - states.mean(0) if len(states) > 1 else states
    if not len(centred) or float(centred.norm()) == 0:
        return torch.eye(size)[0].double(), "state 1"
    direction = torch.linalg.svd(centred, full_matrices=False).Vh[0]
    direction = direction * torch.sign(direction[direction.abs().argmax()])  # the same sign in every run
    return direction, "states along their first principal component"


def _pieces(rows: list[int], kinds: list[str]) -> list[tuple[str, list[int]]]:
    """Return runs of equal kind; each begins at the last point of the one before, so that no gap is drawn."""
    pieces: list[tuple[str, list[int]]] = []
    for row in rows:
        if pieces and pieces[-1][0] == kinds[row]:
            pieces[-1][1].append(row)
        else:
            pieces.append((kinds[row], [*pieces[-1][1][-1:], row] if pieces else [row]))
    return pieces


def _event_height(diagram: BifurcationDiagram, branches: tuple[int, ...], at: float, heights: np.ndarray) -> float:
    """Return the height of the marker of an event: the mean of its branches, each at its nearest point."""
    nearest = []
    for number in branches:
        rows = (diagram.branch == number).nonzero()[:, 0]
        nearest.append(heights[int(rows[(diagram.at[rows] - at).abs().argmin()])])
    return float(np.mean(nearest))


def _draw_counts(axes: Any, diagram: BifurcationDiagram, colours: Mapping[str, str]) -> None:
    """Draw the number of points, and of stable ones, at each snapshot."""
    kinds = diagram.kind
    at = diagram.snapshots.numpy()
    points = [diagram.points(snapshot).tolist() for snapshot in range(len(at))]
    stable = [sum(kinds[row] == "stable" for row in rows) for rows in points]
    # no lines: between two snapshots the number jumps, at the events
    axes.plot(at, [len(rows) for rows in points], "o", color=colours["ink"], fillstyle="none", markersize=7)
    axes.plot(at, stable, "o", color=colours["stable"], markersize=3.5)
    axes.margins(y=0.15)
    axes.set_ylim(min(-0.5, axes.get_ylim()[0]), None)
    axes.locator_params(axis="y", integer=True)


def _draw_legend(
    figure: Any, diagram: BifurcationDiagram, drawn: set[str], colours: Mapping[str, str], font_size: float
) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colours[kind], linestyle="solid" if kind == "stable" else BROKEN, label=label)
        for kind, label in LABELS.items()
        if kind in drawn
    ]
    names = dict.fromkeys(event.name for event in diagram.events)
    handles += [
        Line2D([], [], color=colours["ink"], marker=MARKERS[name], linestyle="none", markersize=4.5, label=name)
        for name in names
    ]
    rings: dict[str, Any] = {"linestyle": "none", "marker": "o"}
    handles += [
        Line2D([], [], color=colours["ink"], fillstyle="none", markersize=7, label="all points of a snapshot", **rings),
        Line2D([], [], color=colours["stable"], markersize=3.5, label="stable points of a snapshot", **rings),
    ]
    style = {"frameon": False, "fontsize": font_size, "labelcolor": colours["ink"]}
    figure.legend(handles=handles, loc="outside lower center", ncols=3, **style)
