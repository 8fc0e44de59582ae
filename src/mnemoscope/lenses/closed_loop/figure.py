"""Figure of the loops of a network that reads its own outputs."""

from __future__ import annotations

from typing import Any

from mnemoscope.drawing.axes import Figure, label_log_axis, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, PALETTE, Colours
from mnemoscope.lenses.bootstrap import wilson_interval
from mnemoscope.lenses.closed_loop.result import Loops, shortened

DRAWN = 6
"""Number of loops that are drawn, those with most prompts; a seventh bar is for all others."""
WIDTH = 34
"""Largest number of characters in the label of a bar."""
LEAST = 1e-16
"""Distances below this are drawn here, as a logarithmic axis has no 0."""


def draw_loops(loops: Loops, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9) -> Figure:
    """Draw the share of prompts that reaches each loop, with its tokens, and the distances to the loops over time."""
    figure = new_figure(9, 3.6) if figure is None else figure
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.1))
    _draw_shares(left, loops, colours)
    _draw_distances(right, loops, colours)
    for axes in (left, right):
        style_axes(axes, colours, font_size)
    left.tick_params(axis="y", labelcolor=colours["ink"], length=0)
    return figure


def _draw_shares(axes: Any, loops: Loops, colours: Colours) -> None:
    drawn = min(len(loops), DRAWN)
    names = _names(colours)
    bars = [
        (shortened(loops.texts[loop], WIDTH), int(loops.counts[loop]), colours[names[loop]]) for loop in range(drawn)
    ]
    rest = {
        f"{len(loops) - drawn} more loops": int(loops.counts[drawn:].sum()),
        "tokens repeat, state moves": int(loops.repeating.sum()),
        "not settled": int(((loops.member < 0) & ~loops.repeating).sum()),
    }
    bars += [(name, count, colours["path"]) for name, count in rest.items() if count]
    for place, (_, count, colour) in enumerate(bars):
        share = count / loops.prompts
        axes.barh(place, share, color=colour, height=0.62)
        edges = [[abs(float(edge) - share)] for edge in wilson_interval(count, loops.prompts)]
        axes.errorbar(share, place, xerr=edges, color=colours["ink"], linewidth=1, capsize=2)
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars])
    axes.set_ylim(max(len(bars), 4) - 0.5, -0.5)  # a single bar does not fill the axes
    axes.set(xlim=(0, 1), xlabel=f"share of {loops.prompts} prompts, with 95% interval", title="Loops and their basins")


def _draw_distances(axes: Any, loops: Loops, colours: Colours) -> None:
    names = _names(colours)
    for prompt, path in zip(loops.traced.tolist(), loops.distances, strict=True):
        colour = colours[names[int(loops.member[prompt])]]
        axes.semilogy(path.clamp_min(LEAST).numpy(), color=colour, linewidth=0.9, alpha=0.8)
    if not len(loops.traced):
        axes.text(0.5, 0.5, "no prompt settled", transform=axes.transAxes, ha="center", color=colours["muted"])
    axes.set(xlabel="generated tokens", ylabel="distance to the loop", title="Approach to the loop")
    if len(loops.traced):
        label_log_axis(axes)


def _names(colours: Colours) -> list[str]:
    """Return the names of the colours of loops, in turn."""
    return [name for name in PALETTE if name in colours]
