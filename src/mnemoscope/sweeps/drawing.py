"""Figures of a sweep: the objective against each field, and all fields of a point as one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log
from statistics import mean
from typing import TYPE_CHECKING, Any

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, style_page_axes
from mnemoscope.report.training_curve import use_log_scale
from mnemoscope.sweeps.results import PointResult
from mnemoscope.sweeps.search_space import Choices, Distribution, Value
from mnemoscope.sweeps.sweep import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_TICKS = 6
"""Values of a list that are all written below an axis."""
WIDE = 20.0
"""Values that differ by such a factor are drawn on a logarithmic axis."""


@dataclass(frozen=True)
class _Scale:
    """Where the values of a field, or of the objective, stand on an axis."""

    name: str
    place: Callable[[Any], float]
    log: bool
    ticks: tuple[list[float], list[str]] | None
    """Where every value has a label of its own."""


def against_each_field(sweep: Sweep, points: Sequence[PointResult]) -> Figure:
    """The objective of every run against each field; a ring marks those of the best point."""
    columns = min(3, len(sweep.over))
    rows = ceil(len(sweep.over) / columns)
    figure = new_figure(max(4.2, 2.9 * columns), 2.9 * rows)
    objective = _objective_scale(sweep, points)
    own = [point for point in points if point.value is not None]
    axes = None
    for number, (name, values) in enumerate(sweep.over.items(), start=1):
        axes = figure.add_subplot(rows, columns, number, sharey=axes)
        scale = _scale(name, values)
        drawn = [(scale.place(point.values[name]), run.value) for point in own for run in point.runs]
        axes.plot(*zip(*drawn, strict=True), "o", color=COLOUR["stable"], alpha=0.5, markersize=5, markeredgewidth=0)
        if isinstance(values, Choices):
            means = [(place, mean(at)) for place, at in _gathered(drawn) if at]
            axes.plot(*zip(*means, strict=True), color=COLOUR["muted"], linewidth=1.2)
        best = [(scale.place(own[0].values[name]), run.value) for run in own[0].runs]
        axes.plot(*zip(*best, strict=True), "o", markersize=10, markerfacecolor="none", markeredgewidth=1.8,
                  color=COLOUR["unstable"])  # fmt: skip
        _dress(axes, scale, objective, name_values=(number - 1) % columns == 0)
    return figure


def parallel(sweep: Sweep, points: Sequence[PointResult]) -> Figure:
    """Every point as a line through its values and its objective; the best quarter in colour, the best one on top."""
    own = [point for point in points if point.value is not None]
    scales = [*(_scale(name, values) for name, values in sweep.over.items()), _objective_scale(sweep, points)]
    lines = [[scale.place(value) for scale, value in zip(scales, _all(point), strict=True)] for point in own]
    lines = [[log(place) if scale.log else place for scale, place in zip(scales, line, strict=True)] for line in lines]
    lows, highs = [min(at) for at in zip(*lines, strict=True)], [max(at) for at in zip(*lines, strict=True)]
    figure = new_figure(max(5.2, 1.9 * len(scales)), 3.6)
    axes = figure.add_subplot()
    good = ceil(len(own) / 4)
    for rank, line in reversed(list(enumerate(lines))):
        heights = [_share(at, low, high) for at, low, high in zip(line, lows, highs, strict=True)]
        style = {"color": COLOUR["unstable"], "linewidth": 2.4} if rank == 0 else (
            {"color": COLOUR["stable"], "linewidth": 1.3} if rank < good else
            {"color": COLOUR["muted"], "linewidth": 0.9, "alpha": 0.4}
        )  # fmt: skip
        axes.plot(range(len(scales)), heights, **style)
    for place, scale in enumerate(scales):
        axes.axvline(place, color=COLOUR["line"], linewidth=1, zorder=0)
        column = [_all(point)[place] for point in own]
        for height, text in _labels(scale, column, [line[place] for line in lines]):
            axes.annotate(text, (place, height), (5, 0), textcoords="offset points", va="bottom",
                          color=COLOUR["muted"], fontsize=PAGE_FONT_SIZE)  # fmt: skip
    axes.set_xticks(range(len(scales)), [_broken(scale.name) for scale in scales])
    axes.set(xlim=(-0.15, len(scales) - 0.45), ylim=(-0.08, 1.08), yticks=[])
    style_page_axes(axes)
    axes.spines[["left", "bottom"]].set_visible(False)
    return figure


def _all(point: PointResult) -> list[Any]:
    return [*point.values.values(), point.value]


def _scale(name: str, values: Distribution) -> _Scale:
    if not isinstance(values, Choices):
        return _Scale(name, float, values.log, None)
    numbers = [value for value in values.values if isinstance(value, int | float) and not isinstance(value, bool)]
    words = [_text(value) for value in values.values]
    if len(numbers) < len(words):
        return _Scale(
            name, lambda value: float(words.index(_text(value))), False, ([*map(float, range(len(words)))], words)
        )
    ticks = ([*map(float, numbers)], words) if len(words) <= MOST_TICKS else None
    return _Scale(name, float, min(numbers) > 0 and max(numbers) >= 8 * min(numbers), ticks)


def _objective_scale(sweep: Sweep, points: Sequence[PointResult]) -> _Scale:
    values = [run.value for point in points for run in point.runs if run.value is not None]
    return _Scale(sweep.objective, float, min(values) > 0 and max(values) > WIDE * min(values), None)


def _dress(axes: Any, scale: _Scale, objective: _Scale, name_values: bool) -> None:
    axes.set_xlabel(scale.name)
    if name_values:
        axes.set_ylabel(objective.name)
    axes.tick_params(labelleft=name_values)
    if objective.log:
        use_log_scale(axes, axes.yaxis)
    if scale.log:
        use_log_scale(axes, axes.xaxis)
    if scale.ticks is not None:
        axes.set_xticks(*scale.ticks)
        axes.set_xticks([], minor=True)
    axes.margins(x=0.12)
    style_page_axes(axes)


def _gathered(drawn: Sequence[tuple[float, float | None]]) -> list[tuple[float, list[float]]]:
    places = sorted({place for place, _ in drawn})
    return [(place, [value for at, value in drawn if at == place and value is not None]) for place in places]


def _labels(scale: _Scale, column: Sequence[Any], places: Sequence[float]) -> list[tuple[float, str]]:
    """Every value of a list that is short enough, or the ends."""
    low, high = min(places), max(places)
    by_place = {_share(place, low, high): _text(value) for place, value in zip(places, column, strict=True)}
    if scale.ticks is None or len(by_place) > MOST_TICKS:
        by_place = {at: text for at, text in by_place.items() if at in (min(by_place), max(by_place))}
    return list(by_place.items())


def _share(at: float, low: float, high: float) -> float:
    return 0.5 if high == low else (at - low) / (high - low)


def _broken(name: str) -> str:
    return name.replace(".", ".\n")


def _text(value: Value) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value).lower() if value is None else str(value)
