"""Figures of cycles, Lyapunov exponents and attractors (need the `report` extra). `colours` has the keys of `LIGHT`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.drawing.axes import label_axes, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT
from mnemoscope.drawing.projection import principal_projection
from mnemoscope.lenses.attractors.cycles_result import Cycles
from mnemoscope.lenses.attractors.lyapunov_result import LyapunovSpectrum
from mnemoscope.lenses.attractors.result import UNDEFINED, Attractors, Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ORBITS = 12
"""Cycles that are drawn, stable ones and short ones first."""
MAX_CURVES = 6
"""Exponents for which the convergence is drawn."""
COLOUR_KEYS = {
    Kind.POINT: "stable",
    Kind.CONTINUOUS: "marginal",
    Kind.CYCLE: "saddle-1",
    Kind.CIRCLE: "slow",
    Kind.TORUS: "saddle-2",
    Kind.CHAOS: "unstable",
    Kind.SLOW: "saddle-3",
    Kind.DIVERGED: "path",
    Kind.UNDECIDED: "muted",
}
"""Key of the colour of each kind."""


def draw_cycles(cycles: Cycles, colours: Mapping[str, str] = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw orbits in the first two coordinates of the state space, and Floquet multipliers with the unit circle."""
    figure = new_figure(10, 4.6)
    left, right = figure.subplots(1, 2)
    order = sorted(range(len(cycles)), key=lambda cycle: (cycles.kind[cycle] != "stable", int(cycles.periods[cycle])))
    orbits = [cycles.orbit(cycle).double().numpy() for cycle in order[:MAX_ORBITS]]
    projected, labels = _projected_orbits(cycles, orbits)
    for cycle, orbit in zip(order, projected, strict=False):
        colour = colours[_colour_key(cycles.kind[cycle])]
        loop = np.concatenate([orbit, orbit[:1]])
        left.plot(*loop.T, color=colour, linewidth=1, alpha=0.6, zorder=1)
        style = {"color": colour, "edgecolor": "white", "linewidth": 0.5, "zorder": 2}
        left.scatter(*orbit.T, s=34, marker="o" if cycles.kind[cycle] == "stable" else "D", **style)
    title = "Orbits" if len(order) <= MAX_ORBITS else f"{MAX_ORBITS} of {len(order)} orbits"
    left.set(xlabel=labels[0], ylabel=labels[1], title=title if len(cycles) else "No cycle was found")
    _draw_multipliers(right, cycles, order, colours)
    for axes in (left, right):
        style_axes(axes, colours, font_size)
    return figure


def draw_exponents(spectrum: LyapunovSpectrum, colours: Mapping[str, str] = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw the exponents with two standard errors, and the convergence of the leading ones."""
    figure = new_figure(10, 3.8)
    left, right = figure.subplots(1, 2)
    unit = "per step" if spectrum.dt is None else "per unit of time"
    index = np.arange(1, spectrum.count + 1)
    values, errors = spectrum.mean.numpy(), 2 * spectrum.mean_errors.numpy()
    finite = np.isfinite(values)
    for axes in (left, right):
        axes.axhline(0, color=colours["muted"], linewidth=1, zorder=1)
    style = {"fmt": "o", "color": colours["stable"], "ecolor": colours["ink"], "markersize": 4.5, "capsize": 3}
    left.errorbar(index[finite], values[finite], yerr=errors[finite], zorder=2, **style)
    title = "Lyapunov exponents, ± 2 standard errors"
    if not spectrum.alive.any():
        title = "No start stayed finite"
    elif not finite.all():
        title = f"{title}\n(minus infinity is omitted)"
    left.set(xlabel="index", ylabel=f"exponent {unit}", title=title)
    left.locator_params(axis="x", integer=True)
    left.set_xlim(0.5, spectrum.count + 0.5)
    curves = spectrum.convergence[spectrum.alive].numpy()
    times = spectrum.steps * (spectrum.dt or 1.0) * np.arange(1, curves.shape[1] + 1) / max(curves.shape[1], 1)
    drawn = [number for number in range(min(spectrum.count, MAX_CURVES)) if finite[number]]
    keys = ("stable", "saddle-2", "marginal", "slow", "unstable", "saddle-1")
    for number in drawn:
        colour = colours[keys[number]]
        right.plot(times, curves[:, :, number].T, color=colour, linewidth=0.5, alpha=0.35)
        right.plot(times, curves[:, :, number].mean(0), color=colour, linewidth=1.8, label=f"{number + 1}")
    if drawn:
        right.legend(
            frameon=False, title="index", loc="upper left", bbox_to_anchor=(1, 1), title_fontsize=font_size - 1
        )
    label = "steps" if spectrum.dt is None else "time"
    if spectrum.steps_of_starts is not None:
        label = f"{label} of the longest sequence; the others are stretched"
    right.set(xlabel=label, title="Running mean: each start (thin), all (thick)" if drawn else "")
    if not drawn:
        left.set_yticks([])
        right.set_axis_off()
    for axes in (left, right):
        style_axes(axes, colours, font_size)
    return figure


def draw_attractors(attractors: Attractors, colours: Mapping[str, str] = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw the attractors in the state space, and the share of the starts in each basin."""
    figure = new_figure(10, 4.4)
    dims = max(2, len(attractors.labels))
    grid = figure.add_gridspec(1, 2, width_ratios=(1.3, 1))
    left: Any = figure.add_subplot(grid[0], projection="3d" if dims == 3 else "rectilinear")
    right = figure.add_subplot(grid[1])
    drawn = [row for row, kind in enumerate(attractors.kind) if kind != Kind.DIVERGED]
    paths = [_draw_attractor(left, attractors, row, colours[COLOUR_KEYS[attractors.kind[row]]]) for row in drawn]
    if paths:
        _show_surroundings(left, np.concatenate(paths))
    labels = ("state", "next state") if len(attractors.labels) == 1 else attractors.labels
    label_axes(left, labels, font_size)
    left.set_title("Attractors" if drawn else _divergence_title(attractors), fontsize=11)
    heights = np.arange(len(attractors))[::-1]
    shares = attractors.shares.numpy()
    right.barh(heights, shares, color=[colours[COLOUR_KEYS[kind]] for kind in attractors.kind], height=0.7)
    for height, share in zip(heights, shares, strict=True):
        right.text(share + 0.02, height, f"{share:.0%}", va="center", color=colours["ink"])
    right.set_yticks(heights, [_name(attractors, row) for row in range(len(attractors))])
    right.set(xlim=(0, 1.15), ylim=(min(-0.5, len(attractors) - 4.5), len(attractors) - 0.5))
    right.set(xlabel="share of the starts", title="Basins")
    for axes in (left, right) if dims == 2 else (right,):
        style_axes(axes, colours, font_size)
    return figure


def _draw_attractor(axes: Any, attractors: Attractors, row: int, colour: str) -> np.ndarray:
    """Draw a fixed point as a dot, a cycle as a polygon, anything else as its states, or as a line for a flow.

    The drawn coordinates (points, dims) are returned.
    """
    kind, path = attractors.kind[row], attractors.paths[row].numpy()
    if path.shape[1] == 1:
        path = np.stack([path[:-1, 0], path[1:, 0]], axis=1)  # each state against the next
    at_rest = kind in (Kind.POINT, Kind.CONTINUOUS, Kind.SLOW)
    if kind == Kind.CYCLE:
        path = path[: int(attractors.periods[row]) + 1]
        axes.plot(*path.T, color=colour, linewidth=0.8, alpha=0.6)
    elif attractors.dt is not None and not at_rest:
        axes.plot(*path.T, color=colour, linewidth=1)
        return path
    size = 42 if at_rest else 22 if kind == Kind.CYCLE else 5
    style = {"edgecolor": "white", "linewidth": 0.5 if size > 5 else 0}
    path = path[-1:] if at_rest else path
    axes.scatter(*path.T, color=colour, s=size, **style)
    return path


def _show_surroundings(axes: Any, coordinates: np.ndarray) -> None:
    """Show a unit around a single point, whose ticks would otherwise be those of rounding errors."""
    extent, centre = np.ptp(coordinates, axis=0).max(), coordinates.mean(0).round(6)
    if extent <= 1e-6 * max(1.0, float(np.abs(coordinates).max())):
        for letter, middle in zip("xyz", centre, strict=False):
            axes.set(**{f"{letter}lim": (middle - 1, middle + 1)})


def _name(attractors: Attractors, row: int) -> str:
    kind = attractors.kind[row]
    return f"cycle of {attractors.periods[row]:.0f}" if kind == Kind.CYCLE else kind.description


def _projected_orbits(cycles: Cycles, orbits: list[np.ndarray]) -> tuple[list[np.ndarray], tuple[str, ...]]:
    """Return orbits in two coordinates: principal components, or state and next state if there is one number."""
    if cycles.states.shape[1] == 1:
        pairs = [np.concatenate([orbit, np.roll(orbit, -1, axis=0)], axis=1) for orbit in orbits]
        return pairs, ("state", "next state")
    project = principal_projection(cycles.states)
    return [project(orbit)[:, :2] for orbit in orbits], project.labels[:2]


def _draw_multipliers(axes: Any, cycles: Cycles, order: list[int], colours: Mapping[str, str]) -> None:
    turn = np.linspace(0, 2 * np.pi, 361)
    axes.fill(np.cos(turn), np.sin(turn), facecolor=colours["inside"], edgecolor=colours["muted"], zorder=1)
    # Modulus to the power of 1 / period, so that long and short cycles share a scale; the angle stays.
    multipliers = cycles.multipliers.numpy()
    moduli = np.abs(multipliers) ** (1 / cycles.periods.numpy()[:, None])
    values = moduli * np.exp(1j * np.angle(multipliers))
    reach = 1.2 * max(1.0, float(np.abs(values).max(initial=0)))
    for cycle in order[::-1]:
        style = {"s": 22, "color": colours[_colour_key(cycles.kind[cycle])], "linewidth": 0, "alpha": 0.8, "zorder": 2}
        axes.scatter(values[cycle].real, values[cycle].imag, **style)
    for kind in dict.fromkeys(cycles.kind[cycle] for cycle in order):
        number = cycles.kind.count(kind)
        axes.scatter([], [], s=22, color=colours[_colour_key(kind)], label=f"{kind} ({number})")
    axes.set_aspect("equal", adjustable="box")
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), xlabel="Re μ", ylabel="Im μ")
    axes.set_title("Multipliers, modulus per step; stable inside")
    if len(cycles):
        axes.legend(frameon=False, loc="upper right")


def _colour_key(kind: str) -> str:
    return "saddle-2" if kind == "saddle" else kind


def _divergence_title(attractors: Attractors) -> str:
    undefined = [note == UNDEFINED for note in attractors.notes]
    ends = ["left to infinity"] * (not all(undefined)) + ["became undefined (NaN)"] * any(undefined)
    return f"All starts {' or '.join(ends)}"
