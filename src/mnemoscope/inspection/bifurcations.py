"""The section of a bifurcation diagram: fixed points in three fixed coordinates at each snapshot, with a slider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.plurals import pluralise
from mnemoscope.drawing.projection import join_lines, principal_projection, to_array
from mnemoscope.lenses.bifurcations.figure import LABELS, shown_kinds
from mnemoscope.lenses.bifurcations.result import BifurcationDiagram
from mnemoscope.report import Section
from mnemoscope.report.markup import LegendEntry, escaped_already, plot_markup, render_template, table_markup
from mnemoscope.report.numbers import format_number
from mnemoscope.report.plots import SYMBOLS, columns, layout, trace

PAUSE = 350
"""Time for which each snapshot is shown during playback, in milliseconds."""
UNDECIDED = "marginal"
"""Kind under which a point is shown if unstable directions were counted nowhere on its branch."""
MAX_STATES = 3000
"""States of trajectories that are drawn at a snapshot."""


def bifurcations_section(
    diagram: BifurcationDiagram,
    *,
    projection: Float[Tensor, "size axes"] | None = None,
    trajectories: Sequence[Float[Tensor, "time batch size"] | None] | None = None,
    name: str = "bifurcations",
) -> Section:
    """Return the section with the animated state space and the list of events.

    Args:
        diagram: the result of `track_fixed_points`.
        projection: three directions (size, 3), the readout for example; by default the principal components of the
            points at the last snapshot.
        trajectories: trajectories at each snapshot, or None for a snapshot without.
        name: prefix of the ids, which distinguishes two such sections on a page.

    """
    count = len(diagram.snapshots)
    if trajectories is not None and len(trajectories) != count:
        raise ValueError(f"There are {count} snapshots, but trajectories of {len(trajectories)}; give None for some.")
    axes, centre, labels = _axes(diagram, projection)
    paths = [_path(states, axes, centre) for states in trajectories or [None] * count]
    points = (diagram.states.numpy() - centre) @ axes
    spec = {"data": _traces(diagram, points, paths), "layout": _layout(points, paths, labels)}
    alt = f"Fixed points at {count} snapshots in three dimensions."
    plot = plot_markup(name, spec, alt=alt, legend=_legend(diagram, paths))
    ends = torch.tensor([event.high for event in diagram.events], dtype=torch.float64)
    after = torch.searchsorted(diagram.snapshots.double(), ends).clamp_max(count - 1)
    html = render_template(
        "bifurcations.html",
        name=name,
        frames=[_caption(diagram, snapshot) for snapshot in range(count)],
        picture=escaped_already(plot),
        events=[(snapshot, event.sentence) for snapshot, event in zip(after.tolist(), diagram.events, strict=True)],
        pause=PAUSE,
    )
    unknown = [*diagram.missing, *diagram.notes]
    if unknown:
        html += table_markup("What is not known", ("",), [(sentence,) for sentence in unknown])
    lead = (
        f"From {pluralise(diagram.count(0), 'fixed point')} to {diagram.count(-1)}. {diagram.how_located} Press Play "
        f"or move the slider to change the snapshot; drag the plot to rotate it. Axes: {', '.join(labels)}."
    )
    return Section(f"Fixed points over the {diagram.parameter}", lead, html)


def _caption(diagram: BifurcationDiagram, snapshot: int) -> str:
    stable = sum(diagram.kind[row] == "stable" for row in diagram.points(snapshot).tolist())
    caption = (
        f"{diagram.parameter} {float(diagram.snapshots[snapshot]):g} · snapshot {snapshot + 1} of "
        f"{len(diagram.snapshots)} · {pluralise(diagram.count(snapshot), 'point')}, {stable} stable"
    )
    return caption + (f" · index sum {diagram.index_sum[snapshot]}" if bool(diagram.bounded[snapshot]) else "")


def _axes(diagram: BifurcationDiagram, projection: Tensor | None) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return the directions (size, 3), the origin of the plot, and the labels of the axes."""
    size = diagram.states.shape[1]
    if projection is not None:
        given = torch.as_tensor(projection).detach().double().numpy()
        if given.shape != (size, 3):
            raise ValueError(f"The projection must have shape ({size}, 3), but has {given.shape}.")
        return given, np.zeros(size), ("readout 1", "readout 2", "readout 3")
    view = principal_projection(diagram.states[diagram.points(-1)])
    missing = 3 - len(view.axes)  # a state of one or two numbers
    return np.pad(view.axes, ((0, missing), (0, 0))).T, view.centre, (*view.labels, *("–",) * missing)


def _path(states: Tensor | None, axes: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Return trajectories as one thinned line (-1, 3) with gaps."""
    if states is None:
        return np.zeros((0, 3))
    if states.dim() != 3 or states.shape[2] != len(centre):
        raise ValueError(f"Trajectories must have shape (time, batch, {len(centre)}), but have {tuple(states.shape)}.")
    kept = states[:, : max(1, MAX_STATES // max(1, states.shape[0]))]
    kept = kept[:: -(-kept.shape[0] // MAX_STATES)]
    return join_lines((to_array(kept).swapaxes(0, 1) - centre) @ axes)


def _traces(diagram: BifurcationDiagram, points: np.ndarray, paths: list[np.ndarray]) -> list[dict[str, Any]]:
    """Return static traces of the branches, and traces of trajectories and points that change with the snapshot."""
    branches = [points[(diagram.branch == branch).numpy()] for branch in range(len(diagram))]
    lines = np.concatenate([join_lines(branch[None]) for branch in branches]) if branches else np.zeros((0, 3))
    line = {"color": "var(--ink)", "width": 2, "dash": "dot"}
    data = [trace(lines, ["branches"], mode="lines", line=line, opacity=0.35, hoverinfo="skip")]
    if any(len(path) for path in paths):
        style = {"mode": "lines", "line": {"color": "var(--path)", "width": 1.5}, "opacity": 0.8, "hoverinfo": "skip"}
        data.append(_animated_trace([columns(path) for path in paths], "paths", **style))
    kinds = shown_kinds(diagram)
    for kind in _drawn_kinds(diagram):
        frames = []
        for snapshot in range(len(diagram.snapshots)):
            rows = [row for row in diagram.points(snapshot).tolist() if (kinds[row] or UNDECIDED) == kind]
            text = [_hover_text(diagram, row) for row in rows]
            names = [str(int(diagram.branch[row])) for row in rows]
            frames.append({**columns(points[rows]), "text": text, "names": names})
        symbol = SYMBOLS[kind.partition("-")[0]]
        marker = {"symbol": symbol, "size": 5 if symbol == "diamond" else 6.5, "color": f"var(--{kind})"}
        marker["line"] = {"color": "var(--ground)", "width": 1}
        data.append(_animated_trace(frames, kind, mode="markers", marker=marker, hoverinfo="text"))
    return data


def _animated_trace(frames: list[dict[str, Any]], tag: str, **style: Any) -> dict[str, Any]:
    """Return a trace that shows the last snapshot and carries all of them in its `meta`."""
    shown = {"customdata" if key == "names" else key: values for key, values in frames[-1].items()}
    return {**trace(np.zeros((0, 3)), (), **style), **shown, "meta": {"tags": [tag], "frames": frames}}


def _hover_text(diagram: BifurcationDiagram, row: int) -> str:
    unstable, index = int(diagram.unstable[row]), int(diagram.index[row])
    lines = [f"<b>branch {int(diagram.branch[row])}</b>", f"index {index:+d}"]
    if unstable >= 0:
        value = diagram.eigenvalues[row, 0]
        name, size = ("Re λ", value.real) if diagram.continuous else ("|λ|", value.abs())
        lines += [f"unstable directions: {unstable}", f"largest {name}: {format_number(float(size))}"]
    return "<br>".join(lines)


def _layout(points: np.ndarray, paths: list[np.ndarray], labels: tuple[str, ...]) -> dict[str, Any]:
    """Return a layout with the same axis ranges for all snapshots."""
    cloud = np.concatenate([points, *paths])
    cloud = cloud[np.isfinite(cloud).all(1)]
    low, high = (cloud.min(0), cloud.max(0)) if len(cloud) else (np.zeros(3), np.zeros(3))
    margin = np.maximum(0.06 * (high - low), 0.02 * max(float((high - low).max()), 1e-3))
    cube = layout(labels)
    for letter, *extent in zip("xyz", (low - margin).tolist(), (high + margin).tolist(), strict=True):
        cube["scene"][f"{letter}axis"]["range"] = extent
    cube["scene"]["aspectmode"] = "cube"
    return cube


def _drawn_kinds(diagram: BifurcationDiagram) -> list[str]:
    """Return the kinds of points at any snapshot, in the order of the legend."""
    at_snapshots = (diagram.snapshot >= 0).tolist()
    present = {kind or UNDECIDED for kind, drawn in zip(shown_kinds(diagram), at_snapshots, strict=True) if drawn}
    return [kind for kind in LABELS if kind in present]


def _legend(diagram: BifurcationDiagram, paths: list[np.ndarray]) -> list[LegendEntry]:
    entries = [LegendEntry(kind, LABELS[kind], kind, SYMBOLS[kind.partition("-")[0]]) for kind in _drawn_kinds(diagram)]
    if any(len(path) for path in paths):
        entries.append(LegendEntry("paths", "trajectories", "path", "line"))
    return [*entries, LegendEntry("branches", "branches", "ink", "line")]
