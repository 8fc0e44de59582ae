"""Figure of diffusion: the coefficient at each place, and the variance over time, predicted and simulated."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.diffusion.result import Diffusion


def draw_diffusion(result: Diffusion, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9) -> Figure:
    """Draw D against the place on the memory, and the variance against the delay with its 95% intervals."""
    figure = new_figure(9, 3.6) if figure is None else figure
    places, times = figure.subplots(1, 2)
    scale, unit = (360 / result.range, "degrees") if result.ring else (1.0, "arc length")
    order = result.positions.argsort()
    coefficients = scale**2 * result.local[order].numpy()
    places.plot(scale * result.positions[order].numpy(), coefficients, color=colours["slow"], linewidth=1.4)
    band = [scale**2 * result.measured_low, scale**2 * result.measured_high]
    places.axhspan(*band, color=colours["ink"], alpha=0.12, linewidth=0, label="simulated mean, 95% interval")
    places.axhline(scale**2 * result.predicted, color=colours["slow"], linestyle="dashed", linewidth=1, label="mean")
    places.set(xlabel=f"position ({unit})", ylabel=f"D ({unit}² per step)", title="Diffusion coefficient")
    places.set_ylim(0, 1.15 * max(float(coefficients.max()), band[1]))
    delays = np.array(result.delays)
    line = np.array([0, delays[-1]])
    times.plot(line, 2 * scale**2 * result.predicted * line, color=colours["slow"], label="2 D t")
    values, low, high = (
        scale**2 * part.numpy() for part in (result.variance, result.variance_low, result.variance_high)
    )
    style = {"color": colours["ink"], "linestyle": "none", "marker": "o", "markersize": 4, "capsize": 2}
    times.errorbar(delays, values, yerr=np.stack([values - low, high - values]), label="simulated", **style)
    times.set(xlabel="delay (steps)", ylabel=f"variance ({unit}²)", title="Spread of a held value")
    for axes in (places, times):
        axes.legend(frameon=False, fontsize=font_size - 1)
        style_axes(axes, colours, font_size)
    return figure
