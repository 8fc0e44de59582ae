"""Figure of the measured influence of inputs."""

from __future__ import annotations

from typing import Any

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.replacement.result import MeasuredInfluence


def draw_measured_influence(
    influence: MeasuredInfluence, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the change of the outputs for every replaced step, and the changes against the lag."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(8, 3.4) if figure is None else figure
    left, right = figure.subplots(1, 2)
    steps, first, last = influence.outputs.shape[1], int(influence.sources[0]), int(influence.sources[-1])
    half = (last - first) / max(len(influence.sources) - 1, 1) / 2
    image = left.imshow(
        influence.outputs.numpy(),
        aspect="auto",
        origin="lower",
        extent=(-0.5, steps - 0.5, first - half, last + half),
        vmin=0,
        cmap="viridis",
        interpolation="nearest",
    )
    bar = figure.colorbar(image, ax=left, location="bottom", shrink=0.8, aspect=16, ticks=MaxNLocator(3))
    bar.outline.set_visible(False)
    style_axes(bar.ax, colours, font_size - 1)
    left.set(xlabel="step", ylabel="replaced step", title="Change of the outputs")
    right.plot(influence.curve.numpy(), color=colours["stable"], linewidth=1.8, label="outputs")
    if influence.states is not None:
        right.plot(influence.state_curve.numpy(), color=colours["saddle-2"], linewidth=1.8, label="state")
    right.set(xlabel="steps since the input", title="Mean change", ylim=(0, None))
    right.legend(frameon=False, fontsize=font_size, labelcolor=colours["ink"])
    for axes in (left, right):
        style_axes(axes, colours, font_size)
    return figure
