"""Recall, kinds of memories, capacity and basins as figures; they need the `report` extra."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.drawing.axes import new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT
from mnemoscope.lenses.recall.memory_kinds import MemoryClass

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mnemoscope.lenses.recall.memory_kinds import MemoryClasses
    from mnemoscope.lenses.recall.retrieval import Basin, Load
    from mnemoscope.lenses.recall.sequences import Recall

MOST_NAMED = 30
"""Points or memories that are named one by one beside a picture."""


def draw_recall(
    seen: Recall, which: int = 0, colours: Mapping[str, str] = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Overlaps with all memories over time, and of each period its overlap and its margin, of one start."""
    figure = new_figure(10, 4.6) if figure is None else figure
    over_time, sure = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    overlaps = seen.overlaps[:, which].numpy()
    picture = _overlaps(over_time, overlaps.T, (-0.5, len(overlaps) - 0.5))
    figure.colorbar(picture, ax=[over_time, sure], label="overlap")
    ends = seen.k * np.arange(1, seen.periods + 1)
    for end in ends[:-1] if seen.periods <= 60 else ():
        over_time.axvline(end + 0.5, color=colours["muted"], linewidth=0.6)
    over_time.set(ylabel="memory")
    dots = {"marker": "o", "markersize": 3.5, "clip_on": False}
    sure.plot(ends, seen.overlap[:, which].abs().numpy(), color=colours["stable"], label="overlap", **dots)
    sure.plot(ends, seen.margin[:, which].numpy(), color=colours["saddle-2"], label="margin over the next", **dots)
    sure.axhline(seen.threshold, color=colours["muted"], linestyle="dotted", linewidth=1)
    if seen.expected is not None:
        wrong = ~seen.exact[:, which].numpy()
        style = {"color": colours["unstable"], "marker": "x", "linestyle": "none", "clip_on": False, "zorder": 4}
        if wrong.any():
            sure.plot(ends[wrong], np.zeros(wrong.sum()), label="not as Phi predicts", **style)
    sure.set(ylim=(0, 1.02), xlabel=f"inner step, {seen.k} to a period", ylabel="at its end")
    style_axes(over_time, colours, font_size)
    style_axes(sure, colours, font_size)
    over_time.locator_params(axis="y", integer=True)
    figure.legend(frameon=False, fontsize=font_size, labelcolor=colours["ink"], loc="outside lower center", ncols=3)
    return figure


def draw_kinds(seen: MemoryClasses, colours: Mapping[str, str] = LIGHT, *, font_size: float = 9) -> Figure:
    """Overlap of every point with every memory, points ordered and named by what they are, and how long each holds."""
    order = seen.order
    figure = new_figure(10, max(3.0, 1.4 + 0.24 * min(len(order), MOST_NAMED)))
    overlaps, dwell = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    values = seen.overlaps[order].numpy() if order else np.zeros((1, seen.overlaps.shape[1]))
    picture = _overlaps(overlaps, values, (-0.5, values.shape[1] - 0.5))
    figure.colorbar(picture, ax=overlaps, label="overlap")
    overlaps.set(xlabel="memory")
    overlaps.locator_params(axis="x", integer=True)
    _name_rows(overlaps, seen, order, colours)
    steps = seen.dwell[order].numpy()
    finite = np.isfinite(steps)
    places = np.arange(len(order))
    dwell.plot(steps[finite], places[finite], "o", color=colours["saddle-2"], markersize=4, label="leaves within")
    longest = 10 * max(float(steps[finite].max(initial=1.0)), seen.lasting)
    style = {"color": colours["stable"], "markersize": 5, "clip_on": False}
    dwell.plot(np.full((~finite).sum(), longest), places[~finite], ">", label="stays", **style)
    dwell.axvline(seen.lasting, color=colours["muted"], linestyle="dotted", linewidth=1)
    dwell.set(xscale="log", xlabel="steps until a deviation has grown by e", xlim=(None, longest))
    style_axes(overlaps, colours, font_size)
    style_axes(dwell, colours, font_size)
    dwell.legend(frameon=False, fontsize=font_size, labelcolor=colours["ink"], loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _name_rows(axes: Any, seen: MemoryClasses, order: list[int], colours: Mapping[str, str]) -> None:
    """Each point by its name, or, where they are too many, each kind by its own and its number."""
    if len(order) <= MOST_NAMED:
        names = seen.names
        axes.set_yticks(range(len(order)), labels=[names[point] for point in order])
        return
    ticks, labels, first = [], [], 0
    for kind, members in groupby(order, key=lambda point: int(seen.kind[point])):
        number = len(list(members))
        ticks.append(first + (number - 1) / 2)
        labels.append(f"{number} {MemoryClass(kind).word}")
        first += number
        axes.axhline(first - 0.5, color=colours["ink"], linewidth=0.8)
    axes.set_yticks(ticks, labels=labels)


def draw_load(seen: Load, colours: Mapping[str, str] = LIGHT, *, font_size: float = 9) -> Figure:
    """Shares of patterns that stay and that are recalled, with standard errors over the seeds, against the load."""
    figure = new_figure(6.4, 3.8)
    axes = figure.subplots()
    load = seen.memories.numpy() / seen.features
    for name, words, colour in (("recalled", f"recalled, {seen.corruption:.0%} of signs flipped", "stable"),
                                ("stable", "stays where it is", "saddle-2")):  # fmt: skip
        mean, error = seen.mean(name).numpy(), seen.error(name).numpy()
        axes.errorbar(load, mean, error, color=colours[colour], capsize=2, marker="o", markersize=3.5, label=words)
    if seen.capacity is not None:
        axes.axvline(seen.capacity / seen.features, color=colours["muted"], linestyle="dotted", linewidth=1)
    axes.set(xlabel="memories / features", ylabel="share of patterns", ylim=(-0.03, 1.03))
    style_axes(axes, colours, font_size)
    if len(load) > 1 and load.max() > 20 * load.min():
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.legend(frameon=False, fontsize=font_size, labelcolor=colours["ink"])
    return figure


def draw_basin(seen: Basin, colours: Mapping[str, str] = LIGHT, *, font_size: float = 9) -> Figure:
    """Share of starts that return, with its 95% interval, against the share of flipped signs."""
    figure = new_figure(6.0, 3.6)
    axes = figure.subplots()
    low, high = seen.interval
    corruptions = seen.corruptions.numpy()
    axes.fill_between(corruptions, low.numpy(), high.numpy(), color=colours["stable"], alpha=0.25, linewidth=0)
    axes.plot(corruptions, seen.share.numpy(), color=colours["stable"], marker="o", markersize=3.5)
    axes.set(xlabel="share of signs flipped at the start", ylabel=f"share that returns to memory {seen.which}",
             ylim=(-0.03, 1.03))  # fmt: skip
    style_axes(axes, colours, font_size)
    return figure


def _overlaps(axes: Any, values: np.ndarray, across: tuple[float, float]) -> Any:
    extent = (*across, len(values) - 0.5, -0.5)
    style = {"cmap": "RdBu_r", "vmin": -1, "vmax": 1, "aspect": "auto", "interpolation": "nearest"}
    return axes.imshow(values, extent=extent, **style)
