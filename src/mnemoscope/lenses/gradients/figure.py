"""Figure of gradient norms through time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import Figure, label_log_axis, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.gradients.result import GradientNorms

COLOURS = ("stable", "unstable", "saddle-2", "slow", "marginal", "saddle-1")
"""Colours of the curves, by their names in `LIGHT`."""
DASHES = ((0, (6, 2)), (0, (1, 2)), (0, (6, 2, 1, 2)))
"""Line styles of the bounds."""


def draw_gradients(
    gradients: GradientNorms,
    colours: Colours = LIGHT,
    *,
    bounds: Mapping[str, Float[Tensor, " time"]] | None = None,
    figure: Any = None,
    font_size: float = 9,
) -> Figure:
    """Draw log |dL/dh_t| against t, one line for each curve and a dashed one for each of the `bounds`."""
    if figure is None:
        figure = new_figure(7, 4)
    axes = figure.add_subplot()
    for number, (name, norms) in enumerate(zip(gradients.names, gradients.norms.nanmean(2).numpy(), strict=True)):
        axes.plot(norms, color=colours[COLOURS[number % len(COLOURS)]], linewidth=1.6, label=name or "measured")
    for number, (name, bound) in enumerate((bounds or {}).items()):
        style: dict[str, Any] = {"color": colours["muted"], "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.4}
        axes.plot(bound.numpy(), label=name, **style)
    axes.set_yscale("log", nonpositive="mask")
    label_log_axis(axes)
    axes.set(xlabel="step t", ylabel="|dL/dh| at step t")
    if len(gradients) + len(bounds or {}) > 1:
        above = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 3}
        axes.legend(frameon=False, fontsize=font_size, labelcolor=colours["ink"], **above)
    style_axes(axes, colours, font_size)
    return figure
