"""Figure of the accuracies of relational networks: dots at one m, lines over several m."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, median
from textwrap import fill
from typing import TYPE_CHECKING, Any

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, style_page_axes
from mnemoscope.replication.computed_study import legend_above
from mnemoscope.replication.learning_study import colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curves = Mapping[str, Mapping[str, Sequence[Mapping[str, Sequence[float]]]]]
"""Learning curves by task, network and seed."""
PANELS_PER_ROW = 4
"""Most panels in a row."""
TITLE_WIDTH = 15
"""Characters per line of a title."""
LEGEND_COLUMNS = 3
"""Columns of the legend."""


@dataclass
class Panel:
    """Accuracies on one task."""

    title: str
    chance: float
    unseen: dict[tuple[str, int | None], list[float]] = field(default_factory=dict)
    """Accuracies on unseen objects by network and m, one per seed."""
    seen: dict[tuple[str, int | None], list[float]] = field(default_factory=dict)
    """Accuracies on training objects, likewise."""
    published: dict[tuple[str, int | None], float] = field(default_factory=dict)
    """Published mean accuracies by network and m."""

    def add(self, network: str, m: int | None, unseen: float, seen: float) -> None:
        """Add the accuracies of one run."""
        self.unseen.setdefault((network, m), []).append(unseen)
        self.seen.setdefault((network, m), []).append(seen)

    @property
    def networks(self) -> list[str]:
        """Names of the networks, without repetition."""
        return list(dict.fromkeys(network for network, _ in self.unseen))

    @property
    def held_out(self) -> list[int]:
        """Numbers m of held-out shapes, in ascending order."""
        return sorted({m for _, m in self.unseen if m is not None})


def draw_accuracies(panels: Sequence[Panel], curves: Curves) -> Figure:
    """Draw a panel for each task; below them, the learning curves."""
    single = [panel for panel in panels if len(panel.held_out) < 2]
    several = [panel for panel in panels if len(panel.held_out) > 1]
    names = [*(panel.networks for panel in several), *curves.values()]
    in_legend = list(dict.fromkeys(network for networks in names for network in networks))
    colour_of = dict(zip(dict.fromkeys((*in_legend, *_networks(single))), colours(), strict=False))
    parts: list[tuple[float, Any]] = []
    for row in _rows(single):
        height = 0.9 + 0.27 * len(_networks(row))
        parts.append((height, lambda part, row=row: _draw_dots(part, row, colour_of, _columns(single))))
    for row in _rows(several):
        parts.append((2.4, lambda part, row=row: _draw_lines(part, row, colour_of, _columns(several))))
    if curves:
        parts.append((2.6, lambda part: _draw_learning(part, curves, colour_of)))
    legend_height = 0.3 * -(-len(in_legend) // LEGEND_COLUMNS)
    heights = [height for height, _ in parts]
    figure = new_figure(7.2, sum(heights) + legend_height)
    subfigures = figure.subfigures(len(parts), 1, height_ratios=heights, squeeze=False)
    for part, (_, draw) in zip(subfigures[:, 0], parts, strict=True):
        part.set_facecolor("none")
        draw(part)
    if in_legend:
        legend_above(figure, LEGEND_COLUMNS, {name: _handle(name, colour_of[name]) for name in in_legend})
    return figure


def _networks(panels: Sequence[Panel]) -> list[str]:
    return list(dict.fromkeys(network for panel in panels for network in panel.networks))


def _rows(panels: Sequence[Panel]) -> list[Sequence[Panel]]:
    columns = _columns(panels)
    return [panels[first : first + columns] for first in range(0, len(panels), columns)]


def _columns(panels: Sequence[Panel]) -> int:
    """Return the number of panels per row that fills the rows evenly: five panels are three and two."""
    rows = max(1, -(-len(panels) // PANELS_PER_ROW))
    return max(1, -(-len(panels) // rows))


def _draw_dots(part: Any, row: Sequence[Panel], colour_of: Mapping[str, str], columns: int) -> None:
    """Draw the networks from top to bottom.

    Each has one dot per seed, a diamond at the mean on training objects, and a circle at the published mean.
    """
    networks = _networks(row)
    for panel_axes, panel in zip(_row_of_axes(part, len(row), columns), row, strict=True):
        _draw_chance(panel_axes.axvline, panel)
        for y, network in enumerate(networks):
            for (name, m), values in panel.unseen.items():
                if name != network:
                    continue
                colour, seen = colour_of[network], mean(panel.seen[name, m])
                panel_axes.plot([seen], [y], "D", color=COLOUR["muted"], fillstyle="none", markersize=5)
                panel_axes.plot(values, [y] * len(values), "o", color=colour, markersize=4, alpha=0.8)
                if (name, m) in panel.published:
                    panel_axes.plot([panel.published[name, m]], [y], "o", color=colour, fillstyle="none", markersize=10)
        panel_axes.set(xlim=(-0.05, 1.05), ylim=(len(networks) - 0.5, -0.5))
        panel_axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
        panel_axes.set_yticks(range(len(networks)), networks)
        _style_panel(panel_axes, panel.title)
        panel_axes.grid(axis="x", color=COLOUR["line"], linewidth=0.8)


def _draw_lines(part: Any, row: Sequence[Panel], colour_of: Mapping[str, str], columns: int) -> None:
    """Draw accuracies over m: dots and lines for unseen objects, dashes for training objects."""
    axes = _row_of_axes(part, len(row), columns)
    for panel_axes, panel in zip(axes, row, strict=True):
        _draw_chance(panel_axes.axhline, panel)
        places = {m: place for place, m in enumerate(panel.held_out)}
        for network in panel.networks:
            held_out = sorted(m for name, m in panel.unseen if name == network and m is not None)
            x, colour = [places[m] for m in held_out], colour_of[network]
            for m in held_out:
                values = panel.unseen[network, m]
                panel_axes.plot([places[m]] * len(values), values, "o", color=colour, markersize=3, alpha=0.6)
            panel_axes.plot(x, [mean(panel.unseen[network, m]) for m in held_out], color=colour)
            seen = [mean(panel.seen[network, m]) for m in held_out]
            panel_axes.plot(x, seen, color=colour, linewidth=1, linestyle=(0, (2, 2)))
            published = {m: panel.published[network, m] for m in held_out if (network, m) in panel.published}
            levels = list(published.values())
            panel_axes.plot([places[m] for m in published], levels, "o", color=colour, fillstyle="none", markersize=9)
        panel_axes.set(xlabel="m held out")
        panel_axes.set_xticks(list(places.values()), [str(m) for m in places])
        _style_panel(panel_axes, panel.title)
    lowest = min(value for panel in row for values in (*panel.unseen.values(), [panel.chance]) for value in values)
    axes[0].set(ylabel="accuracy", ylim=(lowest - 0.05, 1.03))


def _draw_learning(part: Any, curves: Curves, colour_of: Mapping[str, str]) -> None:
    """Draw the accuracy on unseen objects over iterations: each seed, and their median."""
    axes = part.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for panel_axes, (task, networks) in zip(axes, curves.items(), strict=True):
        for network, seeds in networks.items():
            for curve in seeds:
                panel_axes.plot(curve["step"], curve["accuracy"], color=colour_of[network], linewidth=0.6, alpha=0.5)
            length = min(len(curve["step"]) for curve in seeds)
            middle = [median(curve["accuracy"][place] for curve in seeds) for place in range(length)]
            panel_axes.plot(seeds[0]["step"][:length], middle, color=colour_of[network])
        panel_axes.set(xlabel="iterations", ylim=(None, 1.02))
        _style_panel(panel_axes, task)
        panel_axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes[0].set_ylabel("unseen")


def _row_of_axes(part: Any, number: int, columns: int) -> Any:
    """Return the axes of this number of panels; they are as wide as those of a full row."""
    axes = part.subplots(1, columns, sharey=True, squeeze=False)[0]
    for empty in axes[number:]:
        empty.set_visible(False)
    return axes[:number]


def _draw_chance(line: Any, panel: Panel) -> None:
    line(panel.chance, color=COLOUR["muted"], linewidth=1, linestyle=(0, (4, 3)))


def _style_panel(axes: Any, title: str) -> None:
    style_page_axes(axes)
    axes.set_title(fill(title, TITLE_WIDTH), color=COLOUR["ink"], fontsize=PAGE_FONT_SIZE)


def _handle(name: str, colour: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, marker=".", label=name)
