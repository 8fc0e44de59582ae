"""Figures of energies along trajectories, and of energy surfaces (need the `report` extra)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.energy.result import EnergyDescent
from mnemoscope.lenses.energy.surface import EnergySurface

MOST_CURVES = 50
"""Most trajectories that are drawn."""
_SERIES = ("stable", "saddle-1", "unstable", "slow", "marginal", "saddle-3")
_STYLES = ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)))


def draw_descent(descent: EnergyDescent, colours: Colours = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw the energy with its rises, and the means of its terms and of its changes by cause."""
    figure = new_figure(11.5, 3.7)
    energy, terms, causes = figure.subplots(1, 3)
    times = descent.times.numpy()
    along = descent.energy[:, :MOST_CURVES].numpy()
    energy.plot(times, along, color=colours["path"], linewidth=0.9, alpha=0.8)
    ends = times if descent.continuous else times[1:]
    _rises(energy, descent, ends, colours)
    if np.isfinite(descent.bound):
        energy.axhline(descent.bound, color=colours["muted"], linestyle="dotted", label="lower bound")
    energy.set(title="Never rises" if descent.guaranteed else "May rise", ylabel="energy")
    _lines(terms, times, descent.names, descent.terms.mean(2).numpy(), colours)
    terms.set(title="Terms, mean")
    _lines(causes, ends, descent.causes, descent.changes.mean(2).numpy(), colours)
    causes.axhline(0, color=colours["muted"], linewidth=0.8)
    causes.set(title="dE/dt by population, mean" if descent.continuous else "Change in a step by cause, mean")
    for axes in (energy, terms, causes):
        axes.set_xlabel("time" if descent.continuous else "step")
        _legend_below(axes, font_size)
        style_axes(axes, colours, font_size)
    return figure


def _rises(axes: Any, descent: EnergyDescent, ends: np.ndarray, colours: Colours) -> None:
    risen = descent.rises[:, :MOST_CURVES].numpy()
    if not risen.any():
        return
    step, member = np.nonzero(risen)
    shown = descent.energy[-len(risen) :, :MOST_CURVES].numpy()
    share = float(descent.rises.double().mean())
    style = {"s": 7, "color": colours["unstable"], "linewidth": 0, "zorder": 3}
    axes.scatter(ends[step], shown[step, member], label=f"rises, {share:.0%} of all", **style)


def _lines(axes: Any, times: np.ndarray, names: tuple[str, ...], values: np.ndarray, colours: Colours) -> None:
    for number, (name, value) in enumerate(zip(names, values, strict=True)):
        style = {"color": colours[_SERIES[number % 6]], "linestyle": _STYLES[number % 6], "linewidth": 1.6}
        axes.plot(times, value, label=name, **style)


def _legend_below(axes: Any, font_size: float) -> None:
    if axes.get_legend_handles_labels()[0]:
        style = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "handlelength": 1.8, "columnspacing": 1.2}
        axes.legend(frameon=False, fontsize=font_size, ncols=2, **style)


def draw_surface(surface: EnergySurface, colours: Colours = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw a panel for each V_d: the energy above its minimum, the path, and its part during this V_d."""
    count = len(surface)
    columns = min(count, 4)
    rows = -(-count // columns)
    figure = new_figure(2.9 * columns + 1.0, 3.0 * rows + 0.6)
    panels = np.atleast_1d(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)).ravel()
    energy = surface.energy.numpy()
    height = energy - energy.min(axis=(1, 2), keepdims=True)
    levels = _levels(float(np.quantile(height, 0.98)) or 1.0)
    x, y, path = surface.columns.numpy(), surface.rows.numpy(), surface.path.numpy()
    minima, edge = surface.minima.numpy(), surface.at_edge.numpy()
    drawn: Any = None
    for number, axes in enumerate(panels):
        if number >= count:
            axes.set_visible(False)
            continue
        drawn = axes.contourf(x, y, height[number], levels=levels, cmap="Blues_r", extend="max")
        axes.contour(x, y, height[number], levels=levels[1:], colors=colours["ink"], linewidths=0.3, alpha=0.5)
        axes.plot(*path.T, color=colours["path"], linewidth=0.8, alpha=0.9)
        begin, end = int(surface.begin[number]), int(surface.end[number])
        style = {"color": colours["saddle-1"], "linewidth": 2, "marker": "o", "markersize": 3}
        label = "path with this V_d" if surface.held else "path from this V_d on"
        axes.plot(*path[begin : end + 1].T, label=label, **style)
        style = {"color": colours["unstable"], "edgecolor": "white", "linewidth": 0.8, "s": 60, "zorder": 4}
        axes.scatter(*path[end], label="state at the end", **style)
        style = {"color": "white", "edgecolor": colours["ink"], "linewidth": 1, "s": 150, "zorder": 3, "marker": "v"}
        if not edge[number]:
            axes.scatter(*minima[number], label="lowest point of the surface", **style)
        axes.set_title(f"steps {begin} to {end}")
        axes.set_aspect("equal", adjustable="box")
        if number >= count - columns:
            axes.set_xlabel("first direction of V_f")
        if number % columns == 0:
            axes.set_ylabel("second direction of V_f")
        style_axes(axes, colours, font_size)
    bar = figure.colorbar(drawn, ax=list(panels[:count]), shrink=0.75, pad=0.015)
    bar.set_label("energy above its minimum", color=colours["muted"], size=font_size)
    bar.ax.tick_params(labelsize=font_size, labelcolor=colours["muted"], color=colours["line"])
    bar.outline.set_visible(False)
    known = {}
    for axes in panels[:count]:  # a panel whose lowest point is on the edge of the grid does not show it
        known |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    style = {"loc": "outside upper center", "ncols": 3, "frameon": False, "fontsize": font_size}
    figure.legend(list(known.values()), list(known), **style)
    return figure


def _levels(highest: float) -> np.ndarray:
    """Return ten to thirty levels, starting at 0, in steps of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(highest / 10))
    step = next(power * digit for digit in (10, 5, 2, 1) if highest / (power * digit) >= 10)
    return np.arange(0, highest + step, step)
