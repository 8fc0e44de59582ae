"""Figure of transient growth."""

from __future__ import annotations

import numpy as np

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.transient_growth.result import Transients


def draw_transients(result: Transients, colours: Colours = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw spread and norm, mean and standard deviation over the ensemble, as in Kerg's thesis, Fig 1b."""
    figure = new_figure(6, 5)
    top, bottom = figure.subplots(2, 1, sharex=True)
    times = result.times.numpy()
    for axes, (mean, std), title, colour in (
        (top, result.spread, "Standard deviation across units", "saddle-2"),
        (bottom, result.norm, "Norm", "stable"),
    ):
        middle, half = mean.numpy(), std.numpy()
        axes.fill_between(times, middle - half, middle + half, color=colours[colour], alpha=0.25, linewidth=0)
        axes.plot(times, middle, color=colours[colour], linewidth=1.6)
        positive = middle[np.isfinite(middle) & (middle > 0)]
        if len(positive) and positive.max() > 100 * middle[0]:
            axes.set_yscale("log", nonpositive="mask")
        axes.set_title(title)
        style_axes(axes, colours, font_size)
    bottom.set_xlabel("step", color=colours["muted"])
    return figure
