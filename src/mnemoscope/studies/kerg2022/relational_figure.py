"""Accuracy of relational networks as a figure: dots for single networks, lines over what was held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, median
from textwrap import fill
from typing import TYPE_CHECKING, Any

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, style_page_axes
from mnemoscope.replication.learning import colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curves = Mapping[str, Mapping[str, Sequence[Mapping[str, Sequence[float]]]]]
"""Learning curves: task, network, seeds."""
ACROSS = 4
"""Panels side by side."""
TITLE = 15
"""Letters of a title side by side."""
BESIDE = 3
"""Names of networks side by side."""


@dataclass
class Panel:
    """The accuracies on one task."""

    title: str
    chance: float
    unseen: dict[tuple[str, int | None], list[float]] = field(default_factory=dict)
    """Of a network at an m, once per seed."""
    seen: dict[tuple[str, int | None], list[float]] = field(default_factory=dict)
    told: dict[tuple[str, int | None], float] = field(default_factory=dict)
    """What was published."""

    def add(self, network: str, m: int | None, unseen: float, seen: float) -> None:
        """What one network reached."""
        self.unseen.setdefault((network, m), []).append(unseen)
        self.seen.setdefault((network, m), []).append(seen)

    @property
    def networks(self) -> list[str]:
        """Each once."""
        return list(dict.fromkeys(network for network, _ in self.unseen))

    @property
    def over(self) -> list[int]:
        """Numbers of shapes that were held out, from few to many."""
        return sorted({m for _, m in self.unseen if m is not None})


def accuracies(panels: Sequence[Panel], curves: Curves) -> Figure:
    """A panel for each task; below them, how the watched networks learned."""
    single = [panel for panel in panels if len(panel.over) < 2]
    several = [panel for panel in panels if len(panel.over) > 1]
    in_lines = list(
        dict.fromkeys(network for own in (*(each.networks for each in several), *curves.values()) for network in own)
    )
    colour_of = dict(zip(dict.fromkeys((*in_lines, *_networks(single))), colours(), strict=False))
    parts: list[tuple[float, Any]] = []
    for row in _rows(single):
        height = 0.9 + 0.27 * len(_networks(row))
        parts.append((height, lambda part, row=row: _dots(part, row, colour_of, _across(single))))
    for row in _rows(several):
        parts.append((2.4, lambda part, row=row: _lines(part, row, colour_of, _across(several))))
    if curves:
        parts.append((2.6, lambda part: _learning(part, curves, colour_of)))
    above = 0.3 * -(-len(in_lines) // BESIDE)
    figure = new_figure(7.2, sum(each for each, _ in parts) + above)
    divided = figure.subfigures(len(parts), 1, height_ratios=[each for each, _ in parts], squeeze=False)
    for part, (_, draw) in zip(divided[:, 0], parts, strict=True):
        part.set_facecolor("none")
        draw(part)
    if in_lines:
        handles = [_handle(name, colour_of[name]) for name in in_lines]
        figure.legend(
            handles=handles,
            loc="outside upper center",
            ncols=BESIDE,
            frameon=False,
            labelcolor=COLOUR["ink"],
            fontsize=PAGE_FONT_SIZE,
        )
    return figure


def _networks(panels: Sequence[Panel]) -> list[str]:
    return list(dict.fromkeys(network for panel in panels for network in panel.networks))


def _rows(panels: Sequence[Panel]) -> list[Sequence[Panel]]:
    across = _across(panels)
    return [panels[first : first + across] for first in range(0, len(panels), across)]


def _across(panels: Sequence[Panel]) -> int:
    """Rows as full as can be: five panels are three and two."""
    rows = max(1, -(-len(panels) // ACROSS))
    return max(1, -(-len(panels) // rows))


def _dots(part: Any, row: Sequence[Panel], colour_of: Mapping[str, str], columns: int) -> None:
    """Networks from top to bottom: a dot for each seed, a diamond at what was seen in training, a circle at what was
    published.
    """
    networks = _networks(row)
    axes = part.subplots(1, columns, sharey=True, squeeze=False)[0]
    for each in axes[len(row) :]:
        each.set_visible(False)
    for each, panel in zip(axes, row, strict=False):
        _chance(each.axvline, panel)
        for y, network in enumerate(networks):
            for (name, m), values in panel.unseen.items():
                if name != network:
                    continue
                colour = colour_of[network]
                each.plot([mean(panel.seen[name, m])], [y], "D", color=COLOUR["muted"], fillstyle="none", markersize=5)
                each.plot(values, [y] * len(values), "o", color=colour, markersize=4, alpha=0.8)
                if (name, m) in panel.told:
                    each.plot([panel.told[name, m]], [y], "o", color=colour, fillstyle="none", markersize=10)
        each.set(xlim=(-0.05, 1.05), ylim=(len(networks) - 0.5, -0.5))
        each.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
        each.set_yticks(range(len(networks)), networks)
        _titled(each, panel.title)
        each.grid(axis="x", color=COLOUR["line"], linewidth=0.8)


def _lines(part: Any, row: Sequence[Panel], colour_of: Mapping[str, str], columns: int) -> None:
    """Over m: unseen as dots and lines, seen as dashes."""
    axes = part.subplots(1, columns, sharey=True, squeeze=False)[0]
    for each in axes[len(row) :]:
        each.set_visible(False)
    for each, panel in zip(axes, row, strict=False):
        _chance(each.axhline, panel)
        places = {m: place for place, m in enumerate(panel.over)}
        for network in panel.networks:
            at = sorted(m for name, m in panel.unseen if name == network and m is not None)
            x, colour = [places[m] for m in at], colour_of[network]
            for m in at:
                values = panel.unseen[network, m]
                each.plot([places[m]] * len(values), values, "o", color=colour, markersize=3, alpha=0.6)
            each.plot(x, [mean(panel.unseen[network, m]) for m in at], color=colour)
            each.plot(x, [mean(panel.seen[network, m]) for m in at], color=colour, linewidth=1, linestyle=(0, (2, 2)))
            told = {m: panel.told[network, m] for m in at if (network, m) in panel.told}
            each.plot([places[m] for m in told], list(told.values()), "o", color=colour, fillstyle="none", markersize=9)
        each.set(xlabel="m held out")
        each.set_xticks(list(places.values()), [str(m) for m in places])
        _titled(each, panel.title)
    lowest = min(value for panel in row for values in (*panel.unseen.values(), [panel.chance]) for value in values)
    axes[0].set(ylabel="accuracy", ylim=(lowest - 0.05, 1.03))


def _learning(part: Any, curves: Curves, colour_of: Mapping[str, str]) -> None:
    """Accuracy on unseen shapes over iterations: each seed, and their median."""
    axes = part.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for each, (task, networks) in zip(axes, curves.items(), strict=True):
        for network, own in networks.items():
            for curve in own:
                each.plot(curve["step"], curve["accuracy"], color=colour_of[network], linewidth=0.6, alpha=0.5)
            length = min(len(curve["step"]) for curve in own)
            middle = [median(curve["accuracy"][place] for curve in own) for place in range(length)]
            each.plot(own[0]["step"][:length], middle, color=colour_of[network])
        each.set(xlabel="iterations", ylim=(None, 1.02))
        _titled(each, task)
        each.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes[0].set_ylabel("unseen")


def _chance(line: Any, panel: Panel) -> None:
    line(panel.chance, color=COLOUR["muted"], linewidth=1, linestyle=(0, (4, 3)))


def _titled(axes: Any, title: str) -> None:
    style_page_axes(axes)
    axes.set_title(fill(title, TITLE), color=COLOUR["ink"], fontsize=PAGE_FONT_SIZE)


def _handle(name: str, colour: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, marker=".", label=name)
