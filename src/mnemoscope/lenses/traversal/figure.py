"""Figure of the speed of trajectories: aligned times, distances from the reference, and speeds."""

from __future__ import annotations

from typing import Any

import torch

from mnemoscope.base.trial_table import Condition
from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.drawing.shades import condition_colours
from mnemoscope.lenses.traversal.result import Traversal


def draw_traversal(result: Traversal, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9) -> Figure:
    """Draw times along the reference, distances from it and speeds, with 95% intervals, a line for each condition.

    Dotted distances are those that the scatter of the trials alone would produce.
    """
    figure = new_figure(11.5, 3.6) if figure is None else figure
    panels = figure.subplots(1, 3)
    scale, unit = (1.0, "steps") if result.step is None else (result.step, "ms")
    shades = condition_colours(Condition(result.condition, result.levels), colours)
    titles = ("Time along the reference", "Distance from the reference", "Speed")
    for axes, name, title in zip(panels, ("aligned", "distance", "speed"), titles, strict=True):
        values, low, high = (getattr(result, f"{name}{edge}") for edge in ("", "_low", "_high"))
        stretch = scale if name == "aligned" else 1 / scale if name == "speed" else 1.0
        time = scale * torch.arange(len(values)).numpy()
        for number, shade in enumerate(shades):
            label = f"{result.condition} {result.names[number]}"
            axes.plot(time, stretch * values[:, number].numpy(), color=shade, linewidth=1.4, label=label)
            edges = (stretch * edge[:, number].numpy() for edge in (low, high))
            axes.fill_between(time, *edges, color=shade, alpha=0.2, linewidth=0)
            if name == "distance":  # that of scatter alone
                axes.plot(time, result.scatter[:, number].numpy(), color=shade, linewidth=1, linestyle="dotted")
        axes.set(title=title, xlabel=f"time ({unit})" if name == "speed" else f"time of the reference ({unit})")
    panels[0].set_ylabel(f"time of the condition ({unit})")
    panels[1].set_ylabel("distance")
    panels[2].set_ylabel(f"speed (per {'step' if result.step is None else 'ms'})")
    panels[0].legend(frameon=False, fontsize=font_size - 1)
    for axes in panels:
        style_axes(axes, colours, font_size)
    return figure
