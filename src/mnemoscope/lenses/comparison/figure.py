"""Figure of a comparison: the matrix of distances, a map of the systems, and the null distributions."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import torch

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.colour_maps import draw_heat_map
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.drawing.projection import to_array
from mnemoscope.lenses.comparison.result import TITLES, Comparison

GROUP_COLOURS = ("stable", "saddle-1", "unstable", "slow", "marginal", "saddle-2", "saddle-3", "path")
"""Colours of the groups, in the order of their names; they repeat after the last one."""
UNITS = {"angular": "angle (rad)", "euclidean": "distance", "wasserstein": "squared distance", "matching": "mismatch"}
MOST_LABELS = 12
"""Systems up to which the matrix and the map name them; the matrix of more names their groups."""


def draw_comparison(
    result: Comparison, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the distances as a matrix, as a map, and among those of surrogates and halves if these were drawn."""
    drawn = result.null is not None or result.within is not None
    figure = new_figure(11 if drawn else 7.5, 3.8) if figure is None else figure
    panels = figure.subplots(1, 3 if drawn else 2, width_ratios=(1, 1, 1.1) if drawn else (1, 1))
    _draw_matrix(result, panels[0], colours, font_size)
    _draw_map(result, panels[1], colours, font_size)
    if drawn:
        _draw_nulls(result, panels[2], colours, font_size)
    figure.suptitle(f"Comparison of {TITLES[result.method]}", color=colours["ink"], size=max(font_size + 1, 12))
    return figure


def _draw_matrix(result: Comparison, axes: Any, colours: Colours, font_size: float) -> None:
    order = sorted(range(len(result)), key=lambda number: result.groups[number] if result.groups else "")
    picture = to_array(result.distances)[order][:, order]
    draw_heat_map(axes, picture, (0.0, max(float(picture.max()), 1e-12)), colours, font_size, "viridis")
    labels = {result.names[number]: float(place) for place, number in enumerate(order)}
    if len(result) > MOST_LABELS:  # the groups, each in the middle of its rows
        places = {
            group: [n for n, number in enumerate(order) if result.groups[number] == group] for group in result.groups
        }
        labels = {group: sum(rows) / len(rows) for group, rows in places.items()}
    axes.set_xticks(list(labels.values()), list(labels), rotation=90)
    axes.set_yticks(list(labels.values()), list(labels))
    axes.set(title=f"Distances: {UNITS[result.score]}")
    style_axes(axes, colours, font_size)
    axes.spines[["left", "bottom"]].set_visible(False)


def _draw_map(result: Comparison, axes: Any, colours: Colours, font_size: float) -> None:
    points, misfit = result.embedding()
    groups = sorted(set(result.groups)) or [""]
    for number, group in enumerate(groups):
        members = [place for place in range(len(result)) if not result.groups or result.groups[place] == group]
        x, y = to_array(points[members]).T
        axes.scatter(x, y, s=34, color=colours[GROUP_COLOURS[number % len(GROUP_COLOURS)]], label=group or None)
    if not result.groups and len(result) <= MOST_LABELS:
        for name, (x, y) in zip(result.names, to_array(points), strict=True):
            axes.annotate(name, (x, y), xytext=(4, 4), textcoords="offset points", color=colours["muted"])
    if result.groups:
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2)
    span = max(float((points.amax(0) - points.amin(0)).max()), 1e-9)
    middle = (points.amax(0) + points.amin(0)) / 2
    for limits, centre in ((axes.set_xlim, middle[0]), (axes.set_ylim, middle[1])):
        limits(float(centre) - 0.65 * span, float(centre) + 0.65 * span)
    axes.set(title="Map (classical scaling)", xlabel=f"misfit of distances {misfit:.0%}", aspect="equal")
    style_axes(axes, colours, font_size)


def _draw_nulls(result: Comparison, axes: Any, colours: Colours, font_size: float) -> None:
    """Draw measured distances among those of halves of one system and those of surrogates, in sorted pairs."""
    pairs = sorted(combinations(range(len(result)), 2), key=lambda pair: float(result.distances[pair]))
    rows, columns = (torch.tensor(side) for side in zip(*pairs, strict=True))
    places = torch.arange(len(pairs), dtype=torch.float64)
    if result.null is not None:
        _draw_band(axes, places, result.null[:, rows, columns], colours["path"], f"surrogates ({result.null_kind})")
    if result.within is not None:
        halves = torch.cat([result.within[:, rows], result.within[:, columns]])
        _draw_band(axes, places, halves, colours["slow"], "halves of one system")
    axes.plot(places, result.distances[rows, columns], "o", color=colours["ink"], markersize=3, label="measured")
    axes.set(title="Distances of pairs", xlabel="pairs, sorted", ylabel=UNITS[result.score])
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.22))
    style_axes(axes, colours, font_size)


def _draw_band(axes: Any, places: torch.Tensor, values: torch.Tensor, colour: str, label: str) -> None:
    """Draw the range of values at each place, from the 5% to the 95% quantile."""
    low, high = torch.nanquantile(values, torch.tensor([0.05, 0.95], dtype=values.dtype), dim=0)
    edges = torch.stack([places - 0.4, places + 0.4], 1).flatten()
    axes.fill_between(
        edges, low.repeat_interleave(2), high.repeat_interleave(2), color=colour, alpha=0.35, linewidth=0, label=label
    )
