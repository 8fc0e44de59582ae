"""Figure of the study: the state space of one network in each context, and the numbers of all networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from mnemoscope.base.trial_table import Condition
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.shades import condition_colours
from mnemoscope.drawing.svg import COLOUR, add_legend, style_page_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTEXTS = {"motion": ("o", "stable"), "colour": ("D", "saddle-1")}
"""Marker and colour of each context."""


def draw_selection(results: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw trajectories and slow points of the network that has them, and below the numbers of all networks."""
    pictures = next((result["picture"] for result in results if "picture" in result), None)
    figure = new_figure(9.6, 6.6 if pictures else 3.2)
    grid = figure.add_gridspec(2 if pictures else 1, 6)
    if pictures:
        for number, (name, picture) in enumerate(zip(CONTEXTS, pictures, strict=True)):
            axes = figure.add_subplot(grid[0, 3 * number : 3 * number + 3])
            _draw_context(axes, picture, number)
            axes.set(title=f"{name} context", xlabel="choice axis", ylabel=f"{name} axis")
            style_page_axes(axes)
    panels = [figure.add_subplot(grid[-1, 2 * number : 2 * number + 2]) for number in range(3)]
    _scatter(panels[0], results, ("next (ms)", "slowest (ms)"), "linear")
    panels[0].set(title="Modes of slow points", xlabel="next mode (ms)", ylabel="slowest mode (ms)")
    _scatter(panels[1], results, ("at once", "kept"), "log")
    panels[1].set(title="Relevant over irrelevant", xlabel="along the line at once", ylabel="kept by the selection")
    _scatter(panels[2], results, ("irrelevant left", "relevant left"), "linear")
    panels[2].set(title="Evidence left at the end", xlabel="irrelevant", ylabel="relevant")
    for axes in panels:
        style_page_axes(axes)
    add_legend(panels[2], "lower right")
    return figure


def _draw_context(axes: Any, picture: Mapping[str, Any], context: int) -> None:
    """Draw the plane of the choice axis and the axis of the relevant input."""
    shown = [0, 1 + context]
    paths, points = (torch.tensor(picture[name])[..., shown].numpy() for name in ("paths", "points"))
    shades = condition_colours(Condition("coherence", torch.tensor(picture["coherences"])), COLOUR)
    for number, shade in enumerate(shades):
        axes.plot(*paths[:, number].T, color=shade, linewidth=1.4, marker=".", markersize=3)
    axes.plot(*points.T, "x", color=COLOUR["ink"], markersize=4, label="slow points")
    if picture["selection"] is not None:  # None: the slowest mode rotates at all points
        vector = torch.tensor(picture["selection"])[shown]
        vector = (0.35 * (points[:, 0].max() - points[:, 0].min()) * vector / vector.norm()).numpy()
        arrow = {"arrowstyle": "->", "color": COLOUR["saddle-2"], "linewidth": 1.8}
        axes.annotate("", vector, (0, 0), arrowprops=arrow)
        axes.plot([], [], color=COLOUR["saddle-2"], label="selection vector")
    add_legend(axes, "lower right")


def _scatter(axes: Any, results: Sequence[Mapping[str, Any]], names: tuple[str, str], scale: str) -> None:
    """Draw two numbers of every network against each other, one mark for each context, with the diagonal."""
    values = []
    for context, (marker, colour) in CONTEXTS.items():
        pairs = [tuple(result["contexts"][context][name] for name in names) for result in results]
        pairs = [pair for pair in pairs if None not in pair and (scale == "linear" or min(pair) > 0)]
        values += [value for pair in pairs for value in pair]
        axes.plot(
            *zip(*pairs, strict=True) if pairs else ([], []), marker, color=COLOUR[colour], markersize=5, label=context
        )
    if values:
        axes.set(xscale=scale, yscale=scale)
        edges = (min(values), max(values))
        axes.plot(edges, edges, color=COLOUR["muted"], linestyle="dotted", linewidth=1)
