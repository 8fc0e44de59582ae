"""Cycles, exponents and attractors as figures; they need the `report` extra. `colours` go by the names of `LIGHT`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.drawing.axes import new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT
from mnemoscope.drawing.projection import principal_projection
from mnemoscope.lenses.attractors.verdict import UNDEFINED, Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mnemoscope.lenses.attractors.cycles import Cycles
    from mnemoscope.lenses.attractors.lyapunov import LyapunovSpectrum
    from mnemoscope.lenses.attractors.verdict import Attractors

MOST_ORBITS = 12
"""Cycles that are drawn, stable ones and short ones first."""
MOST_LINES = 6
"""Exponents whose convergence is drawn."""
KEYS = {
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
"""The colour of each kind."""


def draw_cycles(cycles: Cycles, colours: Mapping[str, str] = LIGHT, *, font_size: float = 9) -> Figure:
    """Orbits in the first two coordinates of the state space, and Floquet multipliers beside the unit circle.

    A state of one number is drawn against its next.
    """
    figure = new_figure(10, 4.6)
    left, right = figure.subplots(1, 2)
    order = sorted(range(len(cycles)), key=lambda cycle: (cycles.kind[cycle] != "stable", int(cycles.periods[cycle])))
    orbits = [cycles.orbit(cycle).double().numpy() for cycle in order[:MOST_ORBITS]]
    flat, labels = _flattened(cycles, orbits)
    for cycle, orbit in zip(order, flat, strict=False):
        colour = colours[_key(cycles.kind[cycle])]
        loop = np.concatenate([orbit, orbit[:1]])
        left.plot(*loop.T, color=colour, linewidth=1, alpha=0.6, zorder=1)
        style = {"color": colour, "edgecolor": "white", "linewidth": 0.5, "zorder": 2}
        left.scatter(*orbit.T, s=34, marker="o" if cycles.kind[cycle] == "stable" else "D", **style)
    title = "Orbits" if len(order) <= MOST_ORBITS else f"{MOST_ORBITS} of {len(order)} orbits"
    left.set(xlabel=labels[0], ylabel=labels[1], title=title if len(cycles) else "No cycle was found")
    _multipliers(right, cycles, order, colours)
    for axes in (left, right):
        style_axes(axes, colours, font_size)
    return figure


def draw_exponents(seen: LyapunovSpectrum, colours: Mapping[str, str] = LIGHT, *, font_size: float = 9) -> Figure:
    """The exponents with two standard errors, and how the leading ones came to their values."""
    figure = new_figure(10, 3.8)
    left, right = figure.subplots(1, 2)
    unit = "per step" if seen.dt is None else "per unit of time"
    index = np.arange(1, seen.count + 1)
    values, errors = seen.mean.numpy(), 2 * seen.mean_errors.numpy()
    kept = np.isfinite(values)
    for axes in (left, right):
        axes.axhline(0, color=colours["muted"], linewidth=1, zorder=1)
    style = {"fmt": "o", "color": colours["stable"], "ecolor": colours["ink"], "markersize": 4.5, "capsize": 3}
    left.errorbar(index[kept], values[kept], yerr=errors[kept], zorder=2, **style)
    lost = " (minus infinity is left out)" if not kept.all() else ""
    left.set(xlabel="index", ylabel=f"exponent {unit}", title=f"Lyapunov exponents, ± 2 standard errors{lost}")
    left.locator_params(axis="x", integer=True)
    left.set_xlim(0.5, seen.count + 0.5)
    curves = seen.convergence[seen.alive].numpy()
    times = seen.steps * (seen.dt or 1.0) * np.arange(1, curves.shape[1] + 1) / max(curves.shape[1], 1)
    shown = [number for number in range(min(seen.count, MOST_LINES)) if kept[number]]
    tints = ("stable", "saddle-2", "marginal", "slow", "unstable", "saddle-1")
    for number in shown:
        colour = colours[tints[number]]
        right.plot(times, curves[:, :, number].T, color=colour, linewidth=0.5, alpha=0.35)
        right.plot(times, curves[:, :, number].mean(0), color=colour, linewidth=1.8, label=f"{number + 1}")
    if shown:
        right.legend(
            frameon=False, title="index", loc="upper left", bbox_to_anchor=(1, 1), title_fontsize=font_size - 1
        )
    right.set(xlabel="steps" if seen.dt is None else "time", title="Mean up to here: of each start, and of all")
    for axes in (left, right):
        style_axes(axes, colours, font_size)
    return figure


def draw_attractors(seen: Attractors, colours: Mapping[str, str] = LIGHT, *, font_size: float = 9) -> Figure:
    """The attractors in the first two coordinates, and the share of the starts that come to each."""
    figure = new_figure(10, 4.4)
    dims = max(2, len(seen.labels))
    grid = figure.add_gridspec(1, 2, width_ratios=(1.3, 1))
    left: Any = figure.add_subplot(grid[0], projection="3d" if dims == 3 else "rectilinear")
    right = figure.add_subplot(grid[1])
    drawn = [row for row, kind in enumerate(seen.kind) if kind != Kind.DIVERGED]
    for row in drawn:
        _draw_way(left, seen, row, colours[KEYS[seen.kind[row]]])
    labels = ("state", "next state") if len(seen.labels) == 1 else seen.labels
    for name, label in zip("xyz", labels, strict=False):
        getattr(left, f"set_{name}label")(label)
    left.set_title("Attractors" if drawn else _gone(seen), fontsize=11)
    places = np.arange(len(seen))[::-1]
    shares = seen.shares.numpy()
    right.barh(places, shares, color=[colours[KEYS[kind]] for kind in seen.kind], height=0.7)
    for place, share in zip(places, shares, strict=True):
        right.text(share + 0.02, place, f"{share:.0%}", va="center", color=colours["ink"])
    right.set_yticks(places, [_named(seen, row) for row in range(len(seen))])
    right.set(xlim=(0, 1.15), ylim=(min(-0.5, len(seen) - 4.5), len(seen) - 0.5))
    right.set(xlabel="share of the starts", title="Basins")
    for axes in (left, right) if dims == 2 else (right,):
        style_axes(axes, colours, font_size)
    if dims == 3:
        left.tick_params(labelsize=font_size - 1)
        left.locator_params(nbins=4)
        for axis in (left.xaxis, left.yaxis, left.zaxis):
            axis.set_pane_color((1, 1, 1, 0))
    return figure


def _draw_way(axes: Any, seen: Attractors, row: int, colour: str) -> None:
    """One attractor: a rest as a dot, a cycle as a polygon, the rest as its states or, of a flow, as a line."""
    kind, way = seen.kind[row], seen.paths[row].numpy()
    if way.shape[1] == 1:
        way = np.stack([way[:-1, 0], way[1:, 0]], axis=1)  # each state against the next
    rests = kind in (Kind.POINT, Kind.CONTINUOUS, Kind.SLOW)
    if kind == Kind.CYCLE:
        way = way[: int(seen.periods[row]) + 1]
        axes.plot(*way.T, color=colour, linewidth=0.8, alpha=0.6)
    elif seen.dt is not None and not rests:
        axes.plot(*way.T, color=colour, linewidth=1)
        return
    size = 42 if rests else 22 if kind == Kind.CYCLE else 5
    style = {"edgecolor": "white", "linewidth": 0.5 if size > 5 else 0}
    axes.scatter(*(way[-1:] if rests else way).T, color=colour, s=size, **style)


def _named(seen: Attractors, row: int) -> str:
    kind = seen.kind[row]
    return f"cycle of {seen.periods[row]:.0f}" if kind == Kind.CYCLE else kind.words


def _flattened(cycles: Cycles, orbits: list[np.ndarray]) -> tuple[list[np.ndarray], tuple[str, ...]]:
    """Orbits in two coordinates: their own, principal components, or of one number with the next."""
    size = cycles.states.shape[1]
    if size == 1:
        return [np.concatenate([orbit, np.roll(orbit, -1, axis=0)], axis=1) for orbit in orbits], (
            "state",
            "next state",
        )
    project = principal_projection(cycles.states)
    return [project(orbit)[:, :2] for orbit in orbits], project.labels[:2]


def _multipliers(axes: Any, cycles: Cycles, order: list[int], colours: Mapping[str, str]) -> None:
    turn = np.linspace(0, 2 * np.pi, 361)
    axes.fill(np.cos(turn), np.sin(turn), facecolor=colours["inside"], edgecolor=colours["muted"], zorder=1)
    # per step: modulus to the power of 1 / period, so that long and short cycles share a scale; the angle stays
    whole = cycles.multipliers.numpy()
    moduli = np.abs(whole) ** (1 / cycles.periods.numpy()[:, None])
    values = moduli * np.exp(1j * np.angle(whole))
    reach = 1.2 * max(1.0, float(np.abs(values).max(initial=0)))
    for cycle in order[::-1]:
        style = {"s": 22, "color": colours[_key(cycles.kind[cycle])], "linewidth": 0, "alpha": 0.8, "zorder": 2}
        axes.scatter(values[cycle].real, values[cycle].imag, **style)
    for kind in dict.fromkeys(cycles.kind[cycle] for cycle in order):
        number = cycles.kind.count(kind)
        axes.scatter([], [], s=22, color=colours[_key(kind)], label=f"{kind} ({number})")
    axes.set_aspect("equal", adjustable="box")
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach))
    axes.set_xlabel("Re μ")
    axes.set_ylabel("Im μ")
    axes.set_title("Multipliers, modulus per step; stable inside")
    if len(cycles):
        axes.legend(frameon=False, loc="upper right")


def _key(kind: str) -> str:
    return "saddle-2" if kind == "saddle" else kind


def _gone(seen: Attractors) -> str:
    undefined = [note == UNDEFINED for note in seen.notes]
    ends = ["left to infinity"] * (not all(undefined)) + ["became undefined (NaN)"] * any(undefined)
    return f"All starts {' or '.join(ends)}"
