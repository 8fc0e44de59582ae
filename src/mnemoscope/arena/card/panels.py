"""The panels of a memory card: the same axes and units on every card."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mnemoscope.arena.card.answers import Answer, Entry, Line
from mnemoscope.arena.card.failures import CHANCE, LENGTH, LOAD, NOISE
from mnemoscope.arena.card.mechanism import OPERATOR_LINE as OPERATORS
from mnemoscope.arena.card.remembered import IN_ARENA, NETWORKS, ON_TASK, PLACE
from mnemoscope.arena.result import pareto_front
from mnemoscope.drawing.axes import mute_axes
from mnemoscope.drawing.palette import Colours

LONGEST_LAG, LARGEST_STATE = 1000.0, 1e6
"""Ends of the axes of lags and of state sizes; larger values extend them by powers of ten."""
PLANE = 1.25
"""Largest real and imaginary part of the axes of eigenvalues; larger ones are counted below."""
KIND_COLOURS = {"stable point": "stable", "saddle point": "saddle-1", "unstable point": "unstable", OPERATORS: "slow"}
"""Colours of eigenvalues by the kind of their fixed point; others have that of a marginal one."""
LINES = ("stable", "unstable", "saddle-1")
"""Colours of the lines of a panel, in their order."""
Panel = Callable[[Any, Answer, Colours, float], None]


def draw_task_skill(axes: Any, answer: Answer, colours: Colours, size: float) -> None:
    """Draw the skill of this network on its task against the size of its state."""
    own = answer.line(ON_TASK)
    if own is not None:
        axes.plot(own.x, own.y, "D", color=colours["stable"], markersize=4, zorder=3)
        if own.low:
            axes.vlines(own.x, own.low, own.high, color=colours["stable"], linewidth=1.2)
    _finish_skill(axes, "on its task", answer[ON_TASK], [own], colours, size)


def draw_arena_skill(axes: Any, answer: Answer, colours: Colours, size: float) -> None:
    """Draw the mean skill of an arena's networks against the size of their states, with the Pareto front."""
    networks, place = answer.line(NETWORKS), answer.line(PLACE)
    if networks is not None:
        points = dict(zip(networks.labels, zip(networks.x, networks.y, strict=True), strict=True))
        front = [points[name] for name in pareto_front(points)]
        axes.plot(*zip(*front, strict=True), color=colours["path"], linewidth=1)
        axes.plot(networks.x, networks.y, "o", color=colours["path"], markersize=3)
    if place is not None:
        axes.plot(place.x, place.y, "D", color=colours["stable"], markersize=4, zorder=3)
        _name_point(axes, place.labels[0], place.x[0], place.y[0], colours["stable"], size)
    _finish_skill(axes, "arena: mean over tasks", answer[IN_ARENA], [networks], colours, size)


def _finish_skill(
    axes: Any, title: str, entry: Entry, lines: Sequence[Line | None], colours: Colours, size: float
) -> None:
    """Set the axes that both panels of skill share; an empty panel shows the status of its entry."""
    axes.axhline(0, color=colours["muted"], linewidth=0.7, linestyle=(0, (1, 2)))
    _log_x(axes, LARGEST_STATE, max((x for line in lines if line is not None for x in line.x), default=1.0))
    axes.set(xlabel="numbers in the state", ylabel="skill: chance 0", ylim=(-0.2, 1.45))
    axes.set_yticks([0, 0.5, 1])
    axes.text(0.03, 0.96, title, va="top", transform=axes.transAxes, color=colours["ink"], fontsize=size)
    _finish(axes, colours, size)
    if not any(lines):
        _mark_empty(axes, colours, size, "no state" if entry.status == "measured" else entry.status)


def draw_duration(axes: Any, answer: Answer, colours: Colours, size: float) -> None:
    """Draw the effect of an input on outputs and state against the lag, relative to the largest effect."""
    _draw_lags(axes, answer, colours)
    axes.axhline(0.5, color=colours["muted"], linewidth=0.7, linestyle=(0, (1, 2)))
    axes.set(xlabel="steps since the input", ylabel="effect / largest", ylim=(0, 1.08))
    _finish(axes, colours, size, legend="upper right")


def draw_amount(axes: Any, answer: Answer, colours: Colours, size: float) -> None:
    """Draw how much of a past signal is left against the lag: of its variance and of its Fisher information."""
    _draw_lags(axes, answer, colours)
    axes.set(xlabel="steps since the signal", ylabel="share left", ylim=(0, 1.08))
    _finish(axes, colours, size, legend="upper right")


def draw_mechanism(axes: Any, answer: Answer, colours: Colours, size: float) -> None:
    """Draw eigenvalues of fixed points and of operators in the complex plane, with the unit circle."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, fill=False, color=colours["muted"], linewidth=0.7))
    outside = 0
    for line in answer.lines:
        colour = colours[KIND_COLOURS.get(line.name, "marginal")]
        axes.plot(line.x, line.y, "o", color=colour, markersize=2.2, alpha=0.55, markeredgewidth=0, label=line.name)
        outside += sum(abs(x) > PLANE or abs(y) > PLANE for x, y in zip(line.x, line.y, strict=True))
    axes.set(xlabel="real part", ylabel="imaginary part", xlim=(-PLANE, PLANE), ylim=(-PLANE, PLANE), aspect="equal")
    axes.set_xticks([-1, 0, 1])
    axes.set_yticks([-1, 0, 1])
    axes.set_anchor("W")  # room for the legend on the right
    if outside:
        axes.text(0.02, 0.02, f"{outside} outside", transform=axes.transAxes, color=colours["muted"], fontsize=size - 1)
    _finish(axes, colours, size, legend="outside")


def draw_length(axes: Any, answer: Answer, colours: Colours, size: float) -> None:
    """Draw the accuracy against the length, in multiples of that of training."""
    _draw_multiples(axes, answer, LENGTH, "length / training", colours, size)


def draw_load(axes: Any, answer: Answer, colours: Colours, size: float) -> None:
    """Draw the accuracy against the load, in multiples of that of training."""
    _draw_multiples(axes, answer, LOAD, "load / training", colours, size)


def draw_noise(axes: Any, answer: Answer, colours: Colours, size: float) -> None:
    """Draw the accuracy against noise, relative to the state."""
    line = answer.line(NOISE)
    if line is not None:
        _band(axes, line, colours["stable"])
    axes.set_xscale("symlog", linthresh=0.01, linscale=0.4)
    axes.set_xticks([0, 0.1, 1], ["0", "0.1", "1"])
    axes.minorticks_off()
    axes.set(xlabel="noise / state", xlim=(-0.002, 1.25))
    _finish_accuracy(axes, answer, line, colours, size)


def draw_cost(axes: Any, answer: Answer, colours: Colours, size: float) -> None:
    """Draw the time of one step of inference against the number of steps before it."""
    largest = 1.0
    for line in answer.lines:
        _band(axes, line, colours["stable"])
        largest = max([largest, *line.x])
    _log_x(axes, LONGEST_LAG, largest)
    axes.set_yscale("log")
    axes.set(xlabel="steps read before", ylabel="µs per step", ylim=(10, 1e5))
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    _finish(axes, colours, size)


PANELS: Mapping[str, tuple[Panel, ...]] = {
    "remembered": (draw_task_skill, draw_arena_skill),
    "duration": (draw_duration,),
    "amount": (draw_amount,),
    "mechanism": (draw_mechanism,),
    "failures": (draw_length, draw_load, draw_noise),
    "cost": (draw_cost,),
}
"""The panels of each answer."""


def _draw_lags(axes: Any, answer: Answer, colours: Colours) -> None:
    """Draw lines against lags on an axis that is linear from 0 to 1, and logarithmic beyond."""
    largest = 1.0
    for line, colour in zip(answer.lines, LINES, strict=False):
        _band(axes, line, colours[colour], marker="." if len(line.x) < 3 else "")
        largest = max([largest, *line.x])
    _log_x(axes, LONGEST_LAG, largest, first=0.0)


def _draw_multiples(axes: Any, answer: Answer, name: str, label: str, colours: Colours, size: float) -> None:
    line = answer.line(name)
    if line is not None:
        _band(axes, line, colours["stable"])
    axes.axvline(1, color=colours["muted"], linewidth=0.7, linestyle=(0, (1, 2)))
    axes.set_xscale("log", base=2)
    axes.set_xticks([0.25, 1, 4], ["1/4", "1", "4"])
    axes.minorticks_off()
    axes.set(xlabel=label, xlim=(0.2, 5))
    _finish_accuracy(axes, answer, line, colours, size)


def _finish_accuracy(axes: Any, answer: Answer, line: Line | None, colours: Colours, size: float) -> None:
    chance = answer.line(CHANCE)
    if chance is not None and line is not None:
        axes.axhline(chance.y[0], color=colours["muted"], linewidth=0.8, linestyle=(0, (4, 2)))
    axes.set(ylabel="accuracy", ylim=(0, 1.05))
    axes.set_yticks([0, 0.5, 1])
    _finish(axes, colours, size)
    if line is None:
        _mark_empty(axes, colours, size)


def _band(axes: Any, line: Line, colour: str, marker: str = ".") -> None:
    if line.low:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(line.x, line.y, color=colour, linewidth=1.2, marker=marker, markersize=4, label=line.name)


def _log_x(axes: Any, end: float, largest: float, first: float = 1.0) -> None:
    """Set a logarithmic axis from 1, or linear from 0 to 1, to `end` or a larger power of ten, with plain numbers."""
    while end < largest:
        end *= 10
    if first:
        axes.set_xscale("log")
    else:
        axes.set_xscale("symlog", linthresh=1.0, linscale=0.3)
    axes.set_xlim(first, end)
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(lambda value, _: _short(value))


def _short(value: float) -> str:
    """Return a power of ten as a short text: 100, 1k, 10k, 1M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _name_point(axes: Any, name: str, x: float, y: float, colour: str, size: float) -> None:
    """Write a name above a point: to its left if it is in the right half of a logarithmic axis."""
    left = x**2 > LARGEST_STATE
    place = {"xytext": (-4 if left else 4, 4), "ha": "right" if left else "left"}
    behind = {"boxstyle": "square,pad=0.1", "facecolor": axes.get_facecolor(), "linewidth": 0, "alpha": 0.8}
    axes.annotate(name, (x, y), color=colour, fontsize=size, textcoords="offset points", bbox=behind, **place)


def _mark_empty(axes: Any, colours: Colours, size: float, text: str = "no curve") -> None:
    place = {"ha": "center", "va": "center", "transform": axes.transAxes}
    axes.text(0.5, 0.5, text, color=colours["muted"], fontsize=size, **place)


def _finish(axes: Any, colours: Colours, size: float, legend: str = "") -> None:
    mute_axes(axes, colours, size)
    axes.tick_params(length=2, pad=1.5)
    axes.xaxis.labelpad = axes.yaxis.labelpad = 1.5
    named = [name for name in axes.get_legend_handles_labels()[1] if not name.startswith("_")]
    if legend and named:
        place: dict[str, Any] = {"loc": legend}
        if legend == "outside":
            place = {"loc": "center left", "bbox_to_anchor": (1.03, 0.5)}
        style = {"frameon": False, "labelcolor": colours["muted"], "fontsize": size - 0.5, "borderaxespad": 0.2}
        axes.legend(**place, **style, handlelength=1.2, labelspacing=0.25)
    elif legend:
        _mark_empty(axes, colours, size)
