"""Branches of fixed points over the parameter: the bifurcation diagram. Needs the `report` extra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT
from mnemoscope.lenses.bifurcations.evolution import BifurcationDiagram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {
    "stable": "stable",
    "saddle-1": "saddle, 1 unstable direction",
    "saddle-2": "saddle, 2 unstable directions",
    "saddle-3": "saddle, 3 or more unstable directions",
    "unstable": "unstable",
    "marginal": "marginal",
}
"""Kinds of points in words, in the order of a legend."""
MARKS = {
    "saddle-node": "o", "pitchfork": "^", "transcritical": "X", "flip": "s", "Neimark-Sacker": "D", "Hopf": "D",
    "double": "P", "multiple": "p", "unknown": "*",
}  # fmt: skip


def draw_evolution(
    seen: BifurcationDiagram,
    projection: Float[Tensor, " size"] | Sequence[float] | None = None,
    colours: Mapping[str, str] = LIGHT,
    *,
    figure: Any = None,
    font_size: float = 9,
) -> Figure:
    """States along one direction over the parameter; below, how many points each snapshot has.

    Stable branches are drawn in full, others broken; events are marked where they happen.
    """
    figure = new_figure(8.5, 5.6) if figure is None else figure
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    direction, label = _direction(seen, projection)
    heights = (seen.states @ direction).numpy()
    kinds = shown_kinds(seen)
    drawn: set[str] = set()
    for number in range(len(seen)):
        own = (seen.branch == number).nonzero()[:, 0].tolist()
        for kind, rows in _pieces(own, kinds):
            style = {"color": colours.get(kind, colours["path"]), "linewidth": 1.8 if kind == "stable" else 1.3}
            broken = "solid" if kind == "stable" else (0, (4, 1.6))
            top.plot(seen.at[rows].numpy(), heights[rows], linestyle=broken, **style)
            drawn.add(kind)
    for event in seen.events:
        place = _height(seen, event.branches, event.at, heights)
        top.plot(event.at, place, MARKS[event.name], color=colours["ink"], markersize=4.5, zorder=4)
    _counts(bottom, seen, colours)
    top.set(ylabel=label, title="Fixed points over the parameter")
    bottom.set(xlabel="parameter", ylabel="points,\nstable ones")
    style_axes(top, colours, font_size)
    style_axes(bottom, colours, font_size)
    _legend(figure, seen, drawn, colours, font_size)
    return figure


def shown_kinds(seen: BifurcationDiagram) -> list[str]:
    """The kind of each place; where unstable directions were not counted, that of the nearest one of equal index."""
    kinds = list(seen.kind)
    for row, kind in enumerate(kinds):
        if kind:
            continue
        same = (seen.branch == seen.branch[row]) & (seen.unstable >= 0) & (seen.index == seen.index[row])
        rows = same.nonzero()[:, 0]
        if len(rows):
            kinds[row] = seen.kind[int(rows[(seen.at[rows] - seen.at[row]).abs().argmin()])]
    return kinds


def _direction(seen: BifurcationDiagram, projection: Any) -> tuple[Tensor, str]:
    size = seen.states.shape[1]
    if projection is not None:
        given = torch.as_tensor(projection, dtype=torch.float64)
        if given.shape != (size,):
            raise ValueError(f"The projection must have shape ({size},), but has {tuple(given.shape)}.")
        return given, "states along the given direction"
    if size == 1:
        return torch.ones(1).double(), "state"
    own = seen.states[seen.snapshot >= 0]
    centred = own - own.mean(0) if len(own) > 1 else own
    if not len(centred) or float(centred.norm()) == 0:
        return torch.eye(size)[0].double(), "state 1"
    direction = torch.linalg.svd(centred, full_matrices=False).Vh[0]
    direction = direction * torch.sign(direction[direction.abs().argmax()])  # a sign of its own, run after run
    return direction, "states along their first principal component"


def _pieces(rows: list[int], kinds: list[str]) -> list[tuple[str, list[int]]]:
    """Runs of equal kind; each begins where the last one ended, so that no gap is left between them."""
    pieces: list[tuple[str, list[int]]] = []
    for row in rows:
        if pieces and pieces[-1][0] == kinds[row]:
            pieces[-1][1].append(row)
        else:
            pieces.append((kinds[row], [*pieces[-1][1][-1:], row] if pieces else [row]))
    return pieces


def _height(seen: BifurcationDiagram, branches: tuple[int, ...], at: float, heights: np.ndarray) -> float:
    """Where an event is marked: the mean of its branches, each at its nearest place."""
    nearest = []
    for number in branches:
        rows = (seen.branch == number).nonzero()[:, 0]
        nearest.append(heights[int(rows[(seen.at[rows] - at).abs().argmin()])])
    return float(np.mean(nearest))


def _counts(axes: Any, seen: BifurcationDiagram, colours: Mapping[str, str]) -> None:
    """All points, and the stable ones, at each snapshot."""
    kinds = seen.kind
    at = seen.snapshots.numpy()
    own = [seen.points(snapshot).tolist() for snapshot in range(len(at))]
    axes.plot(
        at, [len(rows) for rows in own], color=colours["ink"], marker="o", markersize=2.5, linewidth=1, label="all"
    )
    stable = [sum(kinds[row] == "stable" for row in rows) for rows in own]
    axes.plot(at, stable, color=colours["stable"], marker="o", markersize=2.5, linewidth=1, label="stable")
    axes.set_ylim(0, None)
    axes.yaxis.get_major_locator().set_params(integer=True)


def _legend(
    figure: Any, seen: BifurcationDiagram, drawn: set[str], colours: Mapping[str, str], font_size: float
) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colours[kind], linestyle="solid" if kind == "stable" else (0, (4, 1.6)), label=words)
        for kind, words in LABELS.items()
        if kind in drawn
    ]
    names = dict.fromkeys(event.name for event in seen.events)
    handles += [
        Line2D([], [], color=colours["ink"], marker=MARKS[name], linestyle="none", markersize=4.5, label=name)
        for name in names
    ]
    style = {"frameon": False, "fontsize": font_size, "labelcolor": colours["ink"]}
    figure.legend(handles=handles, loc="outside lower center", ncols=3, **style)
