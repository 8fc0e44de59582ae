"""The state space: trajectories, fixed points and unstable directions in a view that the reader can rotate."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.plurals import pluralise
from mnemoscope.drawing.projection import join_lines
from mnemoscope.lenses.fixed_points.figure import groups
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.fixed_points.view import StateSpaceView, project_state_space
from mnemoscope.report.document import Section
from mnemoscope.report.fixed_points import PointFacts, point_facts
from mnemoscope.report.markup import LegendEntry, plot_markup
from mnemoscope.report.numbers import format_number
from mnemoscope.report.plots import SYMBOLS, layout, ring, trace


def state_space_section(
    fp: FixedPoints, trajectories: Float[Tensor, "time batch size"] | None, origin: str = ""
) -> Section:
    """Return the section with the view of the state space; `origin` is a sentence on where the trajectories start."""
    seen = project_state_space(fp, trajectories)
    in_3d = len(seen.labels) == 3
    lead = "Drag to rotate" if in_3d else "Drag to move"
    lead += ", click and scroll to zoom, double-click to see all, "
    lead += "hover over a fixed point for its properties. " + _coordinates(seen, trajectories is not None)
    lead += f" {origin}" if origin else ""
    html = plot_markup("states", spec(fp, seen), alt=_alt(fp, seen), legend=_legend(fp, seen), notes=seen.notes)
    return Section("State space", lead, html)


def spec(fp: FixedPoints, seen: StateSpaceView) -> dict[str, Any]:
    """Return the figure as plain data."""
    data = [_lines(seen.paths, ["paths"], "var(--path)", 1.5, seen.opacity)] if len(seen.paths) else []
    points = point_facts(fp)
    for group in groups(fp):
        arms = seen.segments[np.isin(seen.owners, group.members)]
        if len(arms):
            data.append(_lines(arms, [group.key, "directions"], f"var(--{group.key})", 4, 1))
        chosen = [points[point] for point in group.members]
        data.append(_markers(seen.points[group.members], chosen, fp.continuous))
    if fp.slow is not None and len(seen.slow):
        data.append(_markers(seen.slow, point_facts(fp.slow, slow=True), fp.continuous))
    data.append(ring(len(seen.labels), size=16, width=3))
    return {"data": data, "layout": layout(seen.labels, equal_scales=seen.labels[0] != "time step")}


def hover_text(point: PointFacts, continuous: bool) -> str:
    """Return the text that appears when the pointer is over a point."""
    slow = point.name.startswith("s")
    lines = [
        f"<b>{'slow point' if slow else 'fixed point'} {point.name.removeprefix('s')}</b> · {point.description}",
        f"unstable directions: {point.unstable}",
        f"largest {'Re λ' if continuous else '|λ|'}: {format_number(point.largest)}",
        f"slowest time constant: {format_number(point.slowest)}",
        f"q: {format_number(point.q)}",
        f"reached by {pluralise(point.reached, 'start')}",
    ]
    return "<br>".join(lines)


def _lines(pieces: np.ndarray, tags: list[str], colour: str, width: float, opacity: float) -> dict[str, Any]:
    """Return lines of shape (pieces, length, dims) as one trace, with a gap after each piece."""
    style = {"mode": "lines", "line": {"color": colour, "width": width}, "opacity": opacity, "connectgaps": False}
    return trace(join_lines(pieces), tags, hoverinfo="skip", **style)


def _markers(coordinates: np.ndarray, points: list[PointFacts], continuous: bool) -> dict[str, Any]:
    """Return points of one kind as a trace."""
    key, symbol = points[0].colour, points[0].symbol
    size = 12 if coordinates.shape[1] == 2 else 5 if symbol == "diamond" else 6.5
    marker = {"symbol": symbol, "size": size, "color": f"var(--{key})", "line": {"color": "var(--ground)", "width": 1}}
    if symbol == "circle-open":
        marker["line"] = {"color": f"var(--{key})", "width": 2}
    text = [hover_text(point, continuous) for point in points]
    names = [point.name for point in points]
    return trace(coordinates, [key], mode="markers", marker=marker, text=text, hoverinfo="text", customdata=names)


def _legend(fp: FixedPoints, seen: StateSpaceView) -> list[LegendEntry]:
    entries = [
        LegendEntry(group.key, f"{group.label} ({len(group.members)})", group.key, SYMBOLS[group.kind])
        for group in groups(fp)
    ]
    if len(seen.slow):
        entries.append(LegendEntry("slow", f"slow point ({len(seen.slow)})", "slow", SYMBOLS["slow"]))
    if len(seen.segments):
        entries.append(LegendEntry("directions", "unstable directions", "ink", "line"))
    if len(seen.paths):
        entries.append(LegendEntry("paths", "trajectories", "path", "line"))
    return entries


def _coordinates(seen: StateSpaceView, driven: bool) -> str:
    if seen.labels[0] == "time step":
        return "Time runs to the right; the fixed points are at the right end."
    if not seen.principal:
        return "The axes are the coordinates of the state."
    return f"The axes are principal components of the {'trajectories' if driven else 'fixed points'}."


def _alt(fp: FixedPoints, seen: StateSpaceView) -> str:
    content = f"{pluralise(len(fp), 'fixed point')}, {pluralise(len(seen.slow), 'slow point')} and "
    return (
        f"View of {content}{pluralise(len(seen.paths), 'trajectory', 'trajectories')} in {len(seen.labels)} dimensions."
    )
