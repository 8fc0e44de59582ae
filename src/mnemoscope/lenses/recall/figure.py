"""Figures of recall, classes of memories, load and basins (they need the `report` extra)."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.recall.classes import MemoryClass, MemoryClasses
from mnemoscope.lenses.recall.corruption import Load, RecallBasin
from mnemoscope.lenses.recall.result import Recall

MOST_NAMED = 30
"""Most points that have a label each."""
MOST_PERIODS = 60
"""Most periods that are separated by lines."""


def draw_recall(recall: Recall, start: int = 0, colours: Colours = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw the overlaps of one start with all memories over time, and the overlap and margin of each period."""
    figure = new_figure(10, 4.6)
    over_time, at_ends = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    overlaps = recall.overlaps[:, start].numpy()
    image = _draw_overlaps(over_time, overlaps.T, (-0.5, len(overlaps) - 0.5))
    figure.colorbar(image, ax=[over_time, at_ends], label="overlap")
    ends = recall.k * np.arange(1, recall.periods + 1)
    for end in ends[:-1] if recall.periods <= MOST_PERIODS else ():
        over_time.axvline(end + 0.5, color=colours["muted"], linewidth=0.6)
    over_time.set(ylabel="memory")
    dots = {"marker": "o", "markersize": 3.5, "clip_on": False}
    overlap, margin = recall.overlap[:, start].abs().numpy(), recall.margin[:, start].numpy()
    at_ends.plot(ends, overlap, color=colours["stable"], label="overlap", **dots)
    at_ends.plot(ends, margin, color=colours["saddle-2"], label="margin over the next", **dots)
    at_ends.axhline(recall.threshold, color=colours["muted"], linestyle="dotted", linewidth=1)
    if recall.expected is not None:
        wrong = ~recall.exact[:, start].numpy()
        style = {"color": colours["unstable"], "marker": "x", "linestyle": "none", "clip_on": False, "zorder": 4}
        if wrong.any():
            at_ends.plot(ends[wrong], np.zeros(wrong.sum()), label="not as Phi predicts", **style)
    at_ends.set(ylim=(0, 1.02), xlabel=f"inner step, {recall.k} to a period", ylabel="at its end")
    style_axes(over_time, colours, font_size)
    style_axes(at_ends, colours, font_size)
    over_time.locator_params(axis="y", integer=True)
    figure.legend(frameon=False, fontsize=font_size, labelcolor=colours["ink"], loc="outside lower center", ncols=3)
    return figure


def draw_classes(points: MemoryClasses, colours: Colours = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw the overlap of every point with every memory, points sorted by class, and their dwell times."""
    order = points.order
    figure = new_figure(10, max(3.0, 1.4 + 0.24 * min(len(order), MOST_NAMED)))
    overlaps, dwell = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    values = points.overlaps[order].numpy() if order else np.zeros((1, points.overlaps.shape[1]))
    image = _draw_overlaps(overlaps, values, (-0.5, values.shape[1] - 0.5))
    figure.colorbar(image, ax=overlaps, label="overlap")
    overlaps.set(xlabel="memory")
    overlaps.locator_params(axis="x", integer=True)
    _label_rows(overlaps, points, order, colours)
    steps = points.dwell[order].numpy()
    finite = np.isfinite(steps)
    places = np.arange(len(order))
    dwell.plot(steps[finite], places[finite], "o", color=colours["saddle-2"], markersize=4, label="leaves within")
    longest = 10 * max(float(steps[finite].max(initial=1.0)), points.lasting)
    style = {"color": colours["stable"], "markersize": 5, "clip_on": False}
    dwell.plot(np.full((~finite).sum(), longest), places[~finite], ">", label="stays", **style)
    dwell.axvline(points.lasting, color=colours["muted"], linestyle="dotted", linewidth=1)
    dwell.set(xscale="log", xlabel="steps until a deviation has grown by e", xlim=(None, longest))
    style_axes(overlaps, colours, font_size)
    style_axes(dwell, colours, font_size)
    dwell.legend(frameon=False, fontsize=font_size, labelcolor=colours["ink"], loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _label_rows(axes: Any, points: MemoryClasses, order: list[int], colours: Colours) -> None:
    """Label each point by its name, or each class by its size if there are too many points."""
    if len(order) <= MOST_NAMED:
        names = points.names
        axes.set_yticks(range(len(order)), labels=[names[point] for point in order])
        return
    ticks, labels, first = [], [], 0
    for point_class, members in groupby(order, key=lambda point: int(points.classes[point])):
        number = len(list(members))
        ticks.append(first + (number - 1) / 2)
        labels.append(f"{number} {MemoryClass(point_class).label}")
        first += number
        axes.axhline(first - 0.5, color=colours["ink"], linewidth=0.8)
    axes.set_yticks(ticks, labels=labels)


def draw_load(load: Load, colours: Colours = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw the shares of patterns that are stable and recalled, with standard errors over the seeds, by load."""
    figure = new_figure(6.4, 3.8)
    axes = figure.subplots()
    per_feature = load.memories.numpy() / load.features
    recalled, stable = f"recalled, {load.corruption:.0%} of signs flipped", "stable"
    for quantity, label, colour in (("recalled", recalled, "stable"), ("stable", stable, "saddle-2")):
        mean, error = load.mean(quantity).numpy(), load.error(quantity).numpy()
        style: dict[str, Any] = {"color": colours[colour], "capsize": 2, "marker": "o", "markersize": 3.5}
        axes.errorbar(per_feature, mean, error, label=label, **style)
    if load.capacity is not None:
        axes.axvline(load.capacity / load.features, color=colours["muted"], linestyle="dotted", linewidth=1)
    axes.set(xlabel="memories / features", ylabel="share of patterns", ylim=(-0.03, 1.03))
    style_axes(axes, colours, font_size)
    if len(per_feature) > 1 and per_feature.max() > 20 * per_feature.min():
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.legend(frameon=False, fontsize=font_size, labelcolor=colours["ink"])
    return figure


def draw_recall_basin(basin: RecallBasin, colours: Colours = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw the share of starts that return, with its 95% interval, against the share of flipped signs."""
    figure = new_figure(6.0, 3.6)
    axes = figure.subplots()
    low, high = basin.interval
    corruptions = basin.corruptions.numpy()
    axes.fill_between(corruptions, low.numpy(), high.numpy(), color=colours["stable"], alpha=0.25, linewidth=0)
    axes.plot(corruptions, basin.share.numpy(), color=colours["stable"], marker="o", markersize=3.5)
    axes.set(xlabel="share of signs flipped at the start", ylim=(-0.03, 1.03))
    axes.set(ylabel=f"share that returns to memory {basin.index}")
    style_axes(axes, colours, font_size)
    return figure


def _draw_overlaps(axes: Any, values: np.ndarray, across: tuple[float, float]) -> Any:
    extent = (*across, len(values) - 0.5, -0.5)
    style = {"cmap": "RdBu_r", "vmin": -1, "vmax": 1, "aspect": "auto", "interpolation": "nearest"}
    return axes.imshow(values, extent=extent, **style)
