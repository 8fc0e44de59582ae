"""Lines of several conditions in one panel: traces over time and paths in a plane, in the same colours."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import Figure
from mnemoscope.drawing.palette import PALETTE, Colours

NAMED = len(PALETTE)
"""Conditions up to which each has a colour of the palette; more conditions share a continuous map."""


def line_colours(number: int, colours: Colours) -> list[Any]:
    """Return a colour for each of `number` conditions."""
    order = ("stable", "unstable", "slow", "saddle-1", "marginal", "saddle-2", "saddle-3")
    if number <= NAMED:
        return [colours[name] for name in order[:number]]
    from matplotlib import colormaps

    return [colormaps["viridis"](place / (number - 1)) for place in range(number)]


def draw_traces(
    axes: Any, traces: Float[Tensor, "time conditions"], step: float | None, colours: Colours, font_size: float
) -> None:
    """Draw one line for each condition over time; `step` is the duration of a step in milliseconds."""
    time = (step or 1) * torch.arange(len(traces)).numpy()
    for line, colour in zip(traces.T.numpy(), line_colours(traces.shape[1], colours), strict=True):
        axes.plot(time, line, color=colour, linewidth=1.2)
    axes.set_xlabel("step" if step is None else "time (ms)", fontsize=font_size)


def draw_paths(axes: Any, paths: Float[Tensor, "time conditions 2"], colours: Colours) -> None:
    """Draw the path of each condition in a plane, with a dot at its start."""
    for place, colour in enumerate(line_colours(paths.shape[1], colours)):
        axes.plot(*paths[:, place].T.numpy(), color=colour, linewidth=1.2)
        axes.plot(*paths[0, place].numpy(), "o", color=colour, markersize=4)
    axes.set_aspect("equal", adjustable="datalim")


def legend_below(figure: Figure | Any, names: tuple[str, ...], colours: Colours, font_size: float) -> None:
    """Name the conditions below a figure, if each has a colour of the palette."""
    from matplotlib.lines import Line2D

    if 1 < len(names) <= NAMED:
        lines = [Line2D([], [], color=colour) for colour in line_colours(len(names), colours)]
        columns = max(1, min(len(names), 120 // (max(map(len, names)) + 6)))
        options: Any = {"loc": "outside lower center", "ncols": columns, "frameon": False, "fontsize": font_size - 1}
        figure.legend(lines, names, **options)
