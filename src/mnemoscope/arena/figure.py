"""Figures of an arena: the table, accuracy against state size with the Pareto front, and learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from math import ceil, nan
from statistics import mean
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from mnemoscope.arena.result import ArenaTable
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.palette import CATEGORIES, LIGHT
from mnemoscope.drawing.svg import COLOUR, add_legend, style_page_axes
from mnemoscope.report.training_curve import use_log_scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 3
"""Panels next to each other."""
NAMES_WIDTH = 36
"""Characters of a line of names above a panel."""
DARKEST = 1.7
"""Level of the full colour in the table; accuracies stay below, so that their numbers can be read."""


def draw_table(table: ArenaTable) -> Figure:
    """Draw the table: accuracies in cells whose colour is the accuracy above chance, the best network first.

    A cell with fewer seeds than the table has a star, and an empty one a dash.
    """
    networks, tasks = table.ranking(), table.tasks
    figure = new_figure(1.9 + 0.62 * (len(tasks) + 2), 1.4 + 0.27 * len(networks))
    axes = figure.add_subplot()
    cells = [[table.cell(network, task) for task in tasks] for network in networks]
    levels = [[nan if cell.skill is None else min(1.0, max(0.0, cell.skill)) for cell in row] for row in cells]
    axes.imshow(levels, cmap=_white_to(LIGHT["stable"]), vmin=0, vmax=DARKEST, aspect="auto")
    for y, (name, row) in enumerate(zip(networks, cells, strict=True)):
        skill, state = table.mean_skill(name)[0], table.mean_state(name)
        numbers = ["–" if skill is None else f"{skill:.2f}", "" if state is None else f"{state:,.0f}"]
        for x, number in zip((len(tasks), len(tasks) + 1.1), numbers, strict=True):
            axes.text(x, y, number, ha="center", va="center", fontsize=8, color=LIGHT["ink"])
        for x, cell in enumerate(row):
            text = "–" if cell.accuracy is None else f"{cell.accuracy:.2f}"
            text += "*" if 0 < len(cell.runs) < cell.expected else ""
            axes.text(x, y, text, ha="center", va="center", fontsize=8, color=LIGHT["ink"])
    axes.set_xlim(-0.5, len(tasks) + 1.7)
    labels = [*tasks, "mean", "state"]
    axes.set_xticks([*range(len(tasks)), len(tasks), len(tasks) + 1.1], labels, rotation=35, ha="left", fontsize=8)
    axes.set_yticks(range(len(networks)), networks, fontsize=8)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False, labelcolor=LIGHT["ink"])
    axes.spines[:].set_visible(False)
    return figure


def draw_front(table: ArenaTable, task: str | None = None) -> Figure:
    """Draw accuracy against state size, and the Pareto front: of one task, or of the mean over all tasks."""
    if task is not None:
        table.arena.task(task)  # raises on an unknown name
    figure = new_figure(7.2, 4.2)
    axes = figure.add_subplot()
    _draw_points(axes, table, task)
    for name in table.front(task):
        place = table.points(task)[name]
        axes.annotate(name, place, (4, 4), textcoords="offset points", color=COLOUR["ink"], fontsize=8)
    axes.set(xlabel="numbers in the state", ylabel="chance is 0, no error is 1" if task is None else "accuracy")
    _add_kinds(axes, table)
    style_page_axes(axes)
    return figure


def draw_fronts(table: ArenaTable) -> Figure:
    """Draw accuracy against state size for every task; above it are the networks of the front, by rising state size."""
    figure, panels = _panels(table)
    for axes, task in panels:
        _draw_points(axes, table, task)
        names = wrap(", ".join(table.front(task)), NAMES_WIDTH)
        axes.text(0, 1.03, "\n".join(names), transform=axes.transAxes, va="bottom", fontsize=7, color=COLOUR["muted"])
        if (chance := table.chances.get(task)) is not None:
            axes.axhline(chance, color=COLOUR["muted"], linewidth=1, linestyle=(0, (1, 2)))
        axes.set(xlabel="numbers in the state", ylabel="accuracy")
        style_page_axes(axes)
        axes.set_title(task, loc="left", pad=7 + 8.5 * len(names), color=COLOUR["ink"])
    return figure


def draw_curves(table: ArenaTable) -> Figure:
    """Draw the mean accuracy over the seeds at every evaluation during training, for every task."""
    figure, panels = _panels(table)
    styles = _styles(table)
    for axes, task in panels:
        for network in table.networks:
            curves = [run.curve for run in table.cell(network, task).runs if run.curve]
            if not curves:
                continue
            # a run that reached its target early stays where it stopped
            longest = max(map(len, curves))
            levels = [mean(curve[min(n, len(curve) - 1)] for curve in curves) for n in range(longest)]
            steps = table.evaluated_steps(task)[:longest]
            marker = "." if longest == 1 else None  # a line of one point would not be seen
            axes.plot(steps, levels, linewidth=1.2, marker=marker, label=network, **styles[network])
        if (chance := table.chances.get(task)) is not None:
            axes.axhline(chance, color=COLOUR["muted"], linewidth=1, linestyle=(0, (1, 2)))
        axes.set(xlabel="optimiser steps", ylabel="accuracy", ylim=(-0.02, 1.05))
        style_page_axes(axes)
        axes.set_title(task, loc="left", color=COLOUR["ink"])
    handles = {name: line for axes, _ in panels for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    if handles:
        style = {"frameon": False, "fontsize": 10, "labelcolor": COLOUR["ink"]}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, **style)
    return figure


def _white_to(colour: str) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("accuracy", ["#ffffff", colour])


def _add_kinds(axes: Any, table: ArenaTable) -> None:
    """Add a legend of the kinds of networks, to the right of the axes."""
    for kind, colour in _colours(table).items():
        axes.plot([], [], marker="o", linestyle="none", color=colour, label=kind)
    add_legend(axes, beside=True)


def _panels(table: ArenaTable) -> tuple[Figure, list[tuple[Any, str]]]:
    rows = ceil(len(table.tasks) / COLUMNS)
    figure = new_figure(10.8, 2.9 * rows + 0.6)
    return figure, [(figure.add_subplot(rows, COLUMNS, n + 1), task) for n, task in enumerate(table.tasks)]


def _draw_points(axes: Any, table: ArenaTable, task: str | None) -> None:
    points, front = table.points(task), table.front(task)
    kinds = {each.name: each.kind for each in table.arena.networks}
    for name, (state, accuracy) in points.items():
        on_front = name in front
        axes.plot(
            state,
            accuracy,
            marker="o",
            markersize=6 if on_front else 4,
            color=_colours(table)[kinds[name]],
            alpha=1.0 if on_front else 0.45,
            linestyle="none",
        )
    if points:
        axes.plot(*zip(*(points[name] for name in front), strict=True), color=COLOUR["path"], linewidth=1, zorder=1)
        use_log_scale(axes, axes.xaxis)
    axes.margins(x=0.15, y=0.12)


def _colours(table: ArenaTable) -> Mapping[str, str]:
    """Return a colour for each kind of network."""
    kinds = dict.fromkeys(each.kind for each in table.arena.networks)
    return {kind: COLOUR[name] for kind, name in zip(kinds, cycle((*CATEGORIES, "ink")), strict=False)}


def _styles(table: ArenaTable) -> dict[str, dict[str, Any]]:
    """Return colour and line of each network: the colour of its kind, and another line for each network of a kind."""
    colours, used, styles = _colours(table), dict[str, int](), {}
    for each in table.arena.networks:
        number = used[each.kind] = used.get(each.kind, -1) + 1
        dashes = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)), (0, (2, 2)), (0, (8, 2)))
        styles[each.name] = {"color": colours[each.kind], "linestyle": dashes[number % len(dashes)]}
    return styles
