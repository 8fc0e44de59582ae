"""Figure of basins: the share of perturbations that return, against their size."""

from __future__ import annotations

from typing import Any

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import CATEGORIES, LIGHT, Colours
from mnemoscope.drawing.shades import category_colours
from mnemoscope.lenses.basins.result import Basins

DASHES = ((0, (4, 1.5)), (0, (1, 1.2)))
"""Line styles of the two signs of a given direction."""


def draw_basins(basins: Basins, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9) -> Figure:
    """Draw the shares that return with their 95% intervals; one panel for each direction, a line for each attractor."""
    pairs = max(1, (len(basins.directions) + 1) // 2)
    figure = new_figure(4.6 * pairs, 3.6) if figure is None else figure
    panels = figure.subplots(1, pairs, sharey=True, squeeze=False)[0]
    sizes, shades = basins.sizes.numpy(), category_colours(len(basins), colours)
    low, high = basins.interval
    for row, shade in enumerate(shades):
        panels[0].fill_between(sizes, low[row].numpy(), high[row].numpy(), color=shade, alpha=0.2, linewidth=0)
        label = f"{'point' if int(basins.periods[row]) == 1 else 'cycle'} {int(basins.numbers[row])}"
        panels[0].plot(sizes, basins.share[row, 0].numpy(), color=shade, marker="o", markersize=3.5, label=label)
        for number, direction in enumerate(basins.directions[1:]):
            style = {"color": shade, "linestyle": DASHES[number % 2], "marker": ".", "markersize": 4}
            shares = basins.share[row, 1 + number].numpy()
            panels[1 + number // 2].plot(sizes, shares, label=f"{label}, {direction}", **style)
    for number, axes in enumerate(panels):
        title = "random directions" if number == 0 else f"along {basins.directions[2 * number][1:]}, exact"
        axes.set(xlabel="size of the perturbation", ylim=(-0.04, 1.04), title=title)
        if len(basins) <= len(CATEGORIES):
            axes.legend(frameon=False, fontsize=font_size - 1)
        style_axes(axes, colours, font_size)
    panels[0].set_ylabel("share that returns")
    return figure
