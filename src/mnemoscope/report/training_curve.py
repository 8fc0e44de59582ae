"""The training curve, with the loss that a network without memory, or a guess, reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from mnemoscope.base.lazy_imports import import_report_extra
from mnemoscope.base.plurals import pluralise
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PHONE_WIDTH, add_legend, inline_svg, style_page_axes
from mnemoscope.report.document import Section
from mnemoscope.report.markup import render_template
from mnemoscope.report.numbers import format_number

MOST_STEPS = 2000
"""At most this many values of a curve are drawn."""

Record = Mapping[str, Any]
Series = list[tuple[float, float]]


def training_section(
    records: Sequence[Record], baseline: float | None, baseline_label: str = "without memory"
) -> Section:
    """Return the section with the loss over the steps; `baseline_label` is that of `NetworkPage`."""
    training, omitted = _series(records, "train_loss")
    test, omitted_of_test = _series(records, "loss")
    omitted += omitted_of_test
    notes = [f"{pluralise(omitted, 'value')} not finite and not drawn."] if omitted else []
    last = [f"{name.replace('_', ' ')} {format_number(float(value))}" for name, value in _last(records).items()]
    several_steps = len({step for step, _ in training + test}) > 1  # a single step is no curve: the text gives it
    svg = _draw(training, test, baseline, baseline_label) if several_steps else None
    html = render_template("training_curve.html", svg=svg, notes=notes, last=last)
    return Section("Training", _lead(training, test, baseline, baseline_label), html)


def _series(records: Sequence[Record], name: str) -> tuple[Series, int]:
    """Return (step, value) for the finite values of one column, and the number of other values."""
    values = [
        (float(record["step"]), float(record[name]))
        for record in records
        if "step" in record and record.get(name) is not None
    ]
    finite = [(step, value) for step, value in values if isfinite(value)]
    return finite, len(values) - len(finite)


def _last(records: Sequence[Record]) -> Record:
    """Return all numbers of the last evaluation."""
    for record in reversed(records):
        if "loss" in record:
            return {name: value for name, value in record.items() if type(value) in (int, float)}
    return {}


def _lead(training: Series, test: Series, baseline: float | None, baseline_label: str) -> str:
    if not training and not test:
        return "No finite loss was recorded."
    name, (step, loss) = ("test loss", test[-1]) if test else ("training loss", training[-1])
    sentence = f"The {name} is {format_number(loss)} after {pluralise(int(step), 'step')}"
    if baseline is None or baseline <= 0 or not isfinite(baseline):
        return f"{sentence}."
    share = loss / baseline
    if share >= 1:
        return f"{sentence}: no better than the {format_number(baseline)} reached {baseline_label}."
    return f"{sentence}, {format_number(100 * share)} % of the {format_number(baseline)} reached {baseline_label}."


def _thinned(series: Series) -> tuple[list[float], list[float]]:
    stride = -(-len(series) // MOST_STEPS)
    kept = series[::stride] if stride <= 1 or (len(series) - 1) % stride == 0 else [*series[::stride], series[-1]]
    return [step for step, _ in kept], [value for _, value in kept]


def _draw(training: Series, test: Series, baseline: float | None, baseline_label: str) -> str:
    figure = new_figure(PHONE_WIDTH, 3.1)
    axes = figure.add_subplot()
    if training:
        dot = "o" if len(training) == 1 else None
        axes.plot(*_thinned(training), color=COLOUR["path"], linewidth=1.1, marker=dot, label="training loss")
    if test:
        size = 7 if len(test) == 1 else 3.5
        axes.plot(*_thinned(test), color=COLOUR["stable"], linewidth=2, marker="o", markersize=size, label="test loss")
    if baseline is not None and isfinite(baseline):
        label = f"{baseline_label}: {format_number(baseline)}"
        axes.axhline(baseline, color=COLOUR["ink"], linewidth=1.2, linestyle=(0, (4, 3)), label=label)
    if any(value > 0 for _, value in training + test):
        use_log_scale(axes, axes.yaxis)
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    add_legend(axes)
    style_page_axes(axes)
    alt = f"Loss over {pluralise(len(training), 'training step')} and {pluralise(len(test), 'evaluation')}."
    return inline_svg(figure, "curve", alt=alt)


def use_log_scale(axes: Any, axis: Any) -> None:
    """Make one axis logarithmic, with numbers formatted as in the text of the page."""
    ticker = import_report_extra("matplotlib.ticker")
    (axes.set_yscale if axis is axes.yaxis else axes.set_xscale)("log", nonpositive="mask")
    low, high = axis.get_view_interval()
    digits = (1,) if high > 100 * low else (1, 2, 5)
    axis.set_major_locator(ticker.LogLocator(subs=digits))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: format_number(value)))
    axis.set_minor_formatter(ticker.NullFormatter())
