"""Figure of linear memory capacity."""

from __future__ import annotations

from typing import Any

from mnemoscope.drawing.axes import Figure, new_figure
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.capacity.result import MemoryCapacity
from mnemoscope.lenses.fisher.figure import draw_cumulative, finish_panels


def draw_capacity(
    capacity: MemoryCapacity, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw R^2 over the lag, with a band of two standard errors if it was measured, and its cumulative sum."""
    figure = new_figure(8, 3.6) if figure is None else figure
    curve, cumulative = figure.subplots(1, 2)
    R2, lags = capacity.curve.detach().numpy(), range(len(capacity))
    curve.plot(lags, R2, color=colours["stable"], linewidth=2)
    if capacity.curve_error is not None:
        half = 2 * capacity.curve_error.numpy()
        curve.fill_between(lags, R2 - half, R2 + half, color=colours["stable"], alpha=0.25, linewidth=0)
    curve.set(xlabel="k steps ago", ylabel="recovered, R²", ylim=(min(0.0, float(R2.min())), 1.03))
    cumulative.axhline(capacity.size, color=colours["ink"], linestyle=(0, (4, 3)), linewidth=1, label="upper bound")
    draw_cumulative(cumulative, R2, float(capacity.total.detach()), colours)
    cumulative.set(ylabel="recovered in total")
    finish_panels((curve, cumulative), (cumulative,), colours, font_size)
    return figure
