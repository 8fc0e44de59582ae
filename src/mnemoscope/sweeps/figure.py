"""Figures of a sweep: the objective against each field, and parallel coordinates of all fields."""

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
"""Largest number of values of a list that are all labelled on an axis."""
WIDE = 20.0
"""Ratio of the largest to the smallest value from which the objective has a logarithmic axis."""


@dataclass(frozen=True)
class _Scale:
    """The axis of a field or of the objective."""

    name: str
    """Label of the axis."""
    position: Callable[[Any], float]
    """Function from a value to its position on the axis."""
    log: bool
    """Whether the axis is logarithmic."""
    ticks: tuple[list[float], list[str]] | None
    """Positions and labels where every value has a label; None: automatic ticks."""
    nominal: bool = False
    """Whether the values are names without an order, which no line may join."""


def draw_objective(sweep: Sweep, points: Sequence[PointResult]) -> Figure:
    """Draw the objective of every run against each field; rings mark the runs of the best point."""
    columns = min(3, len(sweep.over))
    rows = ceil(len(sweep.over) / columns)
    figure = new_figure(max(4.2, 2.9 * columns), 2.9 * rows)
    objective = _objective_scale(sweep, points)
    valued = [point for point in points if point.value is not None]
    axes = None
    for number, (name, values) in enumerate(sweep.over.items(), start=1):
        axes = figure.add_subplot(rows, columns, number, sharey=axes)
        scale = _scale(name, values)
        runs = [(scale.position(point.values[name]), run.value) for point in valued for run in point.runs]
        axes.plot(*zip(*runs, strict=True), "o", color=COLOUR["stable"], alpha=0.5, markersize=5, markeredgewidth=0)
        if isinstance(values, Choices):
            means = [(position, mean(group)) for position, group in _by_position(runs) if group]
            if scale.nominal:
                axes.plot(*zip(*means, strict=True), "_", color=COLOUR["muted"], markersize=26, markeredgewidth=1.8)
            else:
                axes.plot(*zip(*means, strict=True), color=COLOUR["muted"], linewidth=1.2)
        best = [(scale.position(valued[0].values[name]), run.value) for run in valued[0].runs]
        ring: dict[str, Any] = {
            "markersize": 10,
            "markerfacecolor": "none",
            "markeredgewidth": 1.8,
            "color": COLOUR["unstable"],
        }
        axes.plot(*zip(*best, strict=True), "o", **ring)
        _format_axes(axes, scale, objective, label_objective=(number - 1) % columns == 0)
    return figure


def draw_parallel(sweep: Sweep, points: Sequence[PointResult]) -> Figure:
    """Draw every point as a line through its values and its objective.

    The best quarter is in colour, and the best point is on top.
    """
    valued = [point for point in points if point.value is not None]
    scales = [*(_scale(name, values) for name, values in sweep.over.items()), _objective_scale(sweep, points)]
    lines = [
        [_coordinate(scale, value) for scale, value in zip(scales, _values(point), strict=True)] for point in valued
    ]
    columns = list(zip(*lines, strict=True))
    lows, highs = [*map(min, columns)], [*map(max, columns)]
    figure = new_figure(max(5.2, 1.9 * len(scales)), 3.6)
    axes = figure.add_subplot()
    for rank, line in reversed(list(enumerate(lines))):
        heights = [_fraction(position, low, high) for position, low, high in zip(line, lows, highs, strict=True)]
        axes.plot(range(len(scales)), heights, **_line_style(rank, len(valued)))
    for index, scale in enumerate(scales):
        axes.axvline(index, color=COLOUR["line"], linewidth=1, zorder=0)
        column = [_values(point)[index] for point in valued]
        label_style: dict[str, Any] = {"va": "bottom", "color": COLOUR["muted"], "fontsize": PAGE_FONT_SIZE}
        for height, text in _labels(scale, column, [line[index] for line in lines]):
            axes.annotate(text, (index, height), (5, 0), textcoords="offset points", **label_style)
    axes.set_xticks(range(len(scales)), [scale.name.replace(".", ".\n") for scale in scales])
    axes.set(xlim=(-0.15, len(scales) - 0.45), ylim=(-0.08, 1.08), yticks=[])
    style_page_axes(axes)
    axes.spines[["left", "bottom"]].set_visible(False)
    return figure


def _line_style(rank: int, count: int) -> dict[str, Any]:
    if rank == 0:
        return {"color": COLOUR["unstable"], "linewidth": 2.4}
    if rank < ceil(count / 4):
        return {"color": COLOUR["stable"], "linewidth": 1.3}
    return {"color": COLOUR["muted"], "linewidth": 0.9, "alpha": 0.4}


def _values(point: PointResult) -> list[Any]:
    """Return the values of a point, and its objective last."""
    return [*point.values.values(), point.value]


def _coordinate(scale: _Scale, value: Any) -> float:
    """Return the position of a value, or its logarithm on a logarithmic axis."""
    return log(scale.position(value)) if scale.log else scale.position(value)


def _scale(name: str, values: Distribution) -> _Scale:
    if not isinstance(values, Choices):
        return _Scale(name, float, values.log, None)
    numbers = [value for value in values.values if isinstance(value, int | float) and not isinstance(value, bool)]
    labels = [_text(value) for value in values.values]
    if len(numbers) < len(labels):
        positions = [*map(float, range(len(labels)))]
        return _Scale(name, lambda value: float(labels.index(_text(value))), False, (positions, labels), nominal=True)
    ticks = ([*map(float, numbers)], labels) if len(labels) <= MOST_TICKS else None
    return _Scale(name, float, min(numbers) > 0 and max(numbers) >= 8 * min(numbers), ticks)


def _objective_scale(sweep: Sweep, points: Sequence[PointResult]) -> _Scale:
    values = [run.value for point in points for run in point.runs if run.value is not None]
    return _Scale(sweep.objective, float, min(values) > 0 and max(values) > WIDE * min(values), None)


def _format_axes(axes: Any, scale: _Scale, objective: _Scale, label_objective: bool) -> None:
    axes.set_xlabel(scale.name)
    if label_objective:
        axes.set_ylabel(objective.name)
    axes.tick_params(labelleft=label_objective)
    if objective.log:
        use_log_scale(axes, axes.yaxis)
    if scale.log:
        use_log_scale(axes, axes.xaxis)
    if scale.ticks is not None:
        axes.set_xticks(*scale.ticks)
        axes.set_xticks([], minor=True)
    axes.margins(x=0.12)
    style_page_axes(axes)


def _by_position(runs: Sequence[tuple[float, float | None]]) -> list[tuple[float, list[float]]]:
    """Return the finite values at each position, sorted by position."""
    positions = sorted({position for position, _ in runs})
    return [(here, [value for position, value in runs if position == here and value is not None]) for here in positions]


def _labels(scale: _Scale, column: Sequence[Any], positions: Sequence[float]) -> list[tuple[float, str]]:
    """Return heights and labels: all values of a short list, or the lowest and the highest."""
    low, high = min(positions), max(positions)
    labels = {_fraction(position, low, high): _text(value) for position, value in zip(positions, column, strict=True)}
    if scale.ticks is None or len(labels) > MOST_TICKS:
        labels = {height: text for height, text in labels.items() if height in (min(labels), max(labels))}
    return list(labels.items())


def _fraction(position: float, low: float, high: float) -> float:
    return 0.5 if high == low else (position - low) / (high - low)


def _text(value: Value) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value).lower() if value is None else str(value)
