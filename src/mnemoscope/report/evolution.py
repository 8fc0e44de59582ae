"""The evolution of a phase portrait: fixed points in three fixed coordinates, snapshot by snapshot, with a slider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.projection import join_lines
from mnemoscope.lenses.bifurcations.evolution import BifurcationDiagram
from mnemoscope.lenses.bifurcations.figure import LABELS, shown_kinds
from mnemoscope.report.document import Section
from mnemoscope.report.fixed_point_facts import SYMBOLS
from mnemoscope.report.markup import LegendEntry, plot_markup, render_template, table_markup
from mnemoscope.report.numbers import format_number, pluralise
from mnemoscope.report.state_space import rounded

PAUSE = 350
"""Milliseconds that a snapshot is shown while it plays."""
UNDECIDED = "marginal"
"""How a point is shown whose unstable directions were counted nowhere on its branch."""
MOST_STATES = 3000
"""At most this many states of trajectories are drawn at a snapshot."""


def evolution_section(
    seen: BifurcationDiagram,
    *,
    projection: Float[Tensor, "size axes"] | None = None,
    trajectories: Sequence[Float[Tensor, "time batch size"] | None] | None = None,
    parameter: str = "parameter",
    name: str = "evolution",
    title: str = "Evolution of the phase portrait",
) -> Section:
    """The section with the view that moves, and what happens when.

    Args:
        seen: what `track_fixed_points` found.
        projection: three directions (size, 3), the readout for example; by default the principal components of the last
            snapshot's points.
        trajectories: of each snapshot, or None where there is none.
        parameter: what the parameter is, in a word or two ("iteration").
        name: keeps the ids of two such sections on a page apart.
        title: of the section.

    """
    count = len(seen.snapshots)
    if trajectories is not None and len(trajectories) != count:
        raise ValueError(f"There are {count} snapshots, but trajectories of {len(trajectories)}; give None for some.")
    axes, centre, labels = _axes(seen, projection)
    paths = [_paths(one, axes, centre, seen) for one in trajectories or [None] * count]
    points = (seen.states.numpy() - centre) @ axes
    spec = {"data": _traces(seen, points, paths), "layout": _layout(points, paths, labels)}
    sums = seen.index_sum.tolist()
    frames = [
        f"{parameter} {at:g} · snapshot {place + 1} of {count} · {pluralise(seen.count(place), 'point')}, "
        f"{sum(seen.kind[row] == 'stable' for row in seen.points(place).tolist())} stable"
        + (f" · index sum {sums[place]}" if bool(seen.bounded[place]) else "")
        for place, at in enumerate(seen.snapshots.tolist())
    ]
    picture = plot_markup(
        name, spec, alt=f"Fixed points at {count} snapshots in three dimensions.", legend=_legend(seen, paths)
    )
    events = [{"frame": _frame(seen, event.high), "sentence": event.sentence} for event in seen.events]
    html = render_template(
        "evolution.html", name=name, frames=frames, picture=_markup(picture), events=events, pause=PAUSE
    )
    unknown = [*seen.missing, *seen.notes]
    if unknown:
        html += table_markup("What is not known", ("",), [(one,) for one in unknown])
    first, last = seen.count(0), seen.count(-1)
    lead = (
        f"From {pluralise(first, 'fixed point')} to {last}. {seen.how_located} Play it or move the slider; drag the "
        f"picture to turn it. Axes: {', '.join(labels)}."
    )
    return Section(title, lead, html)


def _axes(seen: BifurcationDiagram, projection: Tensor | None) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Directions (size, 3), the origin of the picture, and the names of the axes."""
    size = seen.states.shape[1]
    if projection is not None:
        given = torch.as_tensor(projection).detach().double().numpy()
        if given.shape != (size, 3):
            raise ValueError(f"The projection must have shape ({size}, 3), but has {given.shape}.")
        return given, np.zeros(size), ("readout 1", "readout 2", "readout 3")
    if size <= 3:
        return np.eye(size, 3), np.zeros(size), tuple(f"state {axis + 1}" if axis < size else "–" for axis in range(3))
    last = seen.states[seen.points(-1)].numpy()
    centre = last.mean(0) if len(last) else np.zeros(size)
    _, singular, rows = np.linalg.svd(last - centre, full_matrices=False)
    used = int((singular > 1e-6 * max(singular.max(initial=0), 1e-12)).sum())
    axes = np.linalg.qr(np.concatenate([rows[: min(used, 3)].T, np.eye(size, 3)], axis=1))[0][:, :3]
    axes = axes * np.sign(np.take_along_axis(axes, np.abs(axes).argmax(0)[None], 0))  # a sign of its own, run after run
    share = singular**2 / max(float((singular**2).sum()), 1e-300)
    names = [f"PC {axis + 1} ({share[axis]:.0%})" if axis < used else f"direction {axis + 1}" for axis in range(3)]
    return axes, centre, tuple(names)


def _paths(states: Tensor | None, axes: np.ndarray, centre: np.ndarray, seen: BifurcationDiagram) -> np.ndarray:
    """Trajectories as one run of states with gaps (-1, 3), thinned."""
    if states is None:
        return np.zeros((0, 3))
    size = seen.states.shape[1]
    if states.dim() != 3 or states.shape[2] != size:
        raise ValueError(f"Trajectories must have shape (time, batch, {size}), but have {tuple(states.shape)}.")
    kept = states[:, : max(1, MOST_STATES // max(1, states.shape[0]))]
    kept = kept[:: -(-kept.shape[0] // MOST_STATES)]
    return join_lines((kept.detach().double().numpy().swapaxes(0, 1) - centre) @ axes)


def _traces(seen: BifurcationDiagram, points: np.ndarray, paths: list[np.ndarray]) -> list[dict[str, Any]]:
    """Ways of the branches, which stay; trajectories and points by kind, which change with the snapshot."""
    ways = [points[(seen.branch == branch).numpy()] for branch in range(len(seen))]
    whole = np.concatenate([join_lines(way[None]) for way in ways]) if ways else np.zeros((0, 3))
    line = {"color": "var(--ink)", "width": 2, "dash": "dot"}
    data = [_trace(_columns(whole), ["ways"], mode="lines", line=line, opacity=0.35, hoverinfo="skip")]
    if any(len(path) for path in paths):
        style = {"mode": "lines", "line": {"color": "var(--path)", "width": 1.5}, "opacity": 0.8, "hoverinfo": "skip"}
        data.append(_moving([_columns(path) for path in paths], ["paths"], **style))
    kinds = shown_kinds(seen)
    for kind in (kind for kind in LABELS if kind in _drawn(seen)):
        frames = []
        for snapshot in range(len(seen.snapshots)):
            rows = [row for row in seen.points(snapshot).tolist() if (kinds[row] or UNDECIDED) == kind]
            text = [_hover(seen, row) for row in rows]
            names = [str(int(seen.branch[row])) for row in rows]
            frames.append({**_columns(points[rows]), "text": text, "names": names})
        symbol = SYMBOLS[kind.partition("-")[0]]
        marker = {"symbol": symbol, "size": 5 if symbol == "diamond" else 6.5, "color": f"var(--{kind})"}
        marker["line"] = {"color": "var(--ground)", "width": 1}
        data.append(_moving(frames, [kind], mode="markers", marker=marker, hoverinfo="text"))
    return data


def _columns(points: np.ndarray) -> dict[str, Any]:
    return {axis: rounded(points[:, place]) for place, axis in enumerate("xyz")}


def _trace(columns: dict[str, Any], tags: list[str], **style: Any) -> dict[str, Any]:
    return {"type": "scatter3d", **columns, "meta": {"tags": tags}, "showlegend": False, **style}


def _moving(frames: list[dict[str, Any]], tags: list[str], **style: Any) -> dict[str, Any]:
    """A trace that begins with the last snapshot and carries the others along."""
    last = {axis: frames[-1][axis] for axis in "xyz"}
    trace = _trace(last, tags, **style)
    if "text" in frames[-1]:
        trace |= {"text": frames[-1]["text"], "customdata": frames[-1]["names"]}
    trace["meta"]["frames"] = frames
    return trace


def _hover(seen: BifurcationDiagram, row: int) -> str:
    up, index = int(seen.unstable[row]), int(seen.index[row])
    lines = [f"<b>branch {int(seen.branch[row])}</b>", f"index {index:+d}"]
    if up >= 0:
        value = seen.eigenvalues[row, 0]
        largest = (
            f"largest Re λ: {format_number(float(value.real))}"
            if seen.continuous
            else f"largest |λ|: {format_number(float(value.abs()))}"
        )
        lines += [f"unstable directions: {up}", largest]
    return "<br>".join(lines)


def _layout(points: np.ndarray, paths: list[np.ndarray], labels: tuple[str, ...]) -> dict[str, Any]:
    """One frame of reference for all snapshots."""
    cloud = np.concatenate([points, *paths])
    cloud = cloud[np.isfinite(cloud).all(1)]
    low, high = (cloud.min(0), cloud.max(0)) if len(cloud) else (np.zeros(3), np.zeros(3))
    edge = np.maximum(0.06 * (high - low), 0.02 * max(float((high - low).max()), 1e-3))
    axis = {"gridcolor": "var(--line)", "zerolinecolor": "var(--line)", "color": "var(--muted)", "showspikes": False}
    axis |= {"showbackground": False, "nticks": 5}
    named = {
        f"{letter}axis": {
            **axis,
            "title": {"text": label},
            "range": [float(low[at] - edge[at]), float(high[at] + edge[at])],
        }
        for at, (letter, label) in enumerate(zip("xyz", labels, strict=True))
    }
    camera = {"eye": {"x": 1.35, "y": 1.35, "z": 0.8}, "center": {"x": 0, "y": 0, "z": -0.12}}
    return {"scene": {**named, "aspectmode": "cube", "camera": camera}, "margin": dict.fromkeys("lrtb", 0)}


def _drawn(seen: BifurcationDiagram) -> set[str]:
    """Kinds that any snapshot has."""
    own = [row for row, snapshot in enumerate(seen.snapshot.tolist()) if snapshot >= 0]
    kinds = shown_kinds(seen)
    return {kinds[row] or UNDECIDED for row in own}


def _legend(seen: BifurcationDiagram, paths: list[np.ndarray]) -> list[LegendEntry]:
    drawn = _drawn(seen)
    entries = [
        LegendEntry(kind, words, kind, SYMBOLS[kind.partition("-")[0]])
        for kind, words in LABELS.items()
        if kind in drawn
    ]
    if any(len(path) for path in paths):
        entries.append(LegendEntry("paths", "trajectories", "path", "line"))
    return [*entries, LegendEntry("ways", "ways of the points", "ink", "line")]


def _frame(seen: BifurcationDiagram, at: float) -> int:
    """The first snapshot after an event."""
    later = (seen.snapshots >= at).nonzero()[:, 0]
    return int(later[0]) if len(later) else len(seen.snapshots) - 1


def _markup(html: str) -> Any:
    from markupsafe import Markup

    return Markup(html)
