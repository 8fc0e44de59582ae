"""The state space: trajectories, fixed points and unstable directions, to be turned by hand."""

from __future__ import annotations

from math import floor, log10
from typing import Any

import numpy as np
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fixed_points.figure import groups
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.fixed_points.view import View, strung, view
from mnemoscope.report.frame import LegendEntry, Section, plot
from mnemoscope.report.words import SYMBOLS, PointFacts, facts, number, plural


def state_space(fp: FixedPoints, trajectories: Float[Tensor, "time batch size"] | None) -> Section:
    """The section with the view that turns."""
    seen = view(fp, trajectories)
    solid = len(seen.labels) == 3
    lead = "Drag to turn it, scroll to zoom, " if solid else "Drag to zoom in, double-click to see all, "
    lead += "point at a fixed point for its properties. " + _coordinates(seen, trajectories is not None)
    html = plot("states", spec(fp, seen), alt=_alt(fp, seen), legend=_legend(fp, seen), notes=seen.notes)
    return Section("State space", lead, html)


def spec(fp: FixedPoints, seen: View) -> dict[str, Any]:
    """The plotly figure, as plain data."""
    data = [_lines(seen.paths, ["paths"], "var(--path)", 1.5, seen.opacity)] if len(seen.paths) else []
    said = facts(fp)
    for group in groups(fp):
        arms = seen.segments[np.isin(seen.owners, group.members)]
        if len(arms):
            data.append(_lines(arms, [group.key, "directions"], f"var(--{group.key})", 4, 1))
        chosen = [said[point] for point in group.members]
        data.append(_markers(seen.points[group.members], chosen, group.key, SYMBOLS[group.kind], fp.continuous))
    if fp.slow is not None and len(seen.slow):
        data.append(_markers(seen.slow, facts(fp.slow, slow=True), "slow", SYMBOLS["slow"], fp.continuous))
    data.append(_ring(len(seen.labels)))
    return {"data": data, "layout": _layout(seen)}


def rounded(array: np.ndarray) -> list[float | None]:
    """Coordinates to four digits of their range, and None for what is not finite: short, and legal JSON."""
    finite = array[np.isfinite(array)]
    extent = float(np.ptp(finite)) if len(finite) else 0.0
    digits = 4 - floor(log10(extent)) if extent > 0 else 6
    return [round(value, digits) if np.isfinite(value) else None for value in array.tolist()]


def hover(said: PointFacts, continuous: bool) -> str:
    """What is shown at a point."""
    slow = said.name.startswith("s")
    lines = [
        f"<b>{'slow point' if slow else 'fixed point'} {said.name.removeprefix('s')}</b> · {said.description}",
        f"unstable directions: {said.unstable}",
        f"largest {'Re λ' if continuous else '|λ|'}: {number(said.largest)}",
        f"slowest time constant: {number(said.slowest)}",
        f"q: {number(said.q)}",
        f"reached by {plural(said.reached, 'start')}",
    ]
    return "<br>".join(lines)


def _trace(coordinates: np.ndarray, tags: list[str], **style: Any) -> dict[str, Any]:
    """A scatter trace through (points, dims) coordinates."""
    axes = {name: rounded(column) for name, column in zip("xyz", coordinates.T, strict=False)}
    kind = "scatter3d" if coordinates.shape[1] == 3 else "scatter"
    return {"type": kind, **axes, "meta": {"tags": tags}, "showlegend": False, **style}


def _lines(pieces: np.ndarray, tags: list[str], colour: str, width: float, opacity: float) -> dict[str, Any]:
    """(pieces, length, dims) as one trace, with a gap after each piece."""
    line = {"color": colour, "width": width}
    return _trace(strung(pieces), tags, mode="lines", line=line, opacity=opacity, hoverinfo="skip", connectgaps=False)


def _markers(
    coordinates: np.ndarray, said: list[PointFacts], key: str, symbol: str, continuous: bool
) -> dict[str, Any]:
    size = 12 if coordinates.shape[1] == 2 else 5 if symbol == "diamond" else 6.5
    marker = {"symbol": symbol, "size": size, "color": f"var(--{key})", "line": {"color": "var(--ground)", "width": 1}}
    if symbol == "circle-open":
        marker["line"] = {"color": f"var(--{key})", "width": 2}
    text = [hover(one, continuous) for one in said]
    names = [one.name for one in said]
    return _trace(coordinates, [key], mode="markers", marker=marker, text=text, hoverinfo="text", customdata=names)


def _ring(dims: int) -> dict[str, Any]:
    """Marks the point selected in the table; empty until then."""
    marker = {"symbol": "circle-open", "size": 16, "color": "var(--ink)", "line": {"color": "var(--ink)", "width": 3}}
    ring = _trace(np.zeros((0, dims)), [], mode="markers", marker=marker, hoverinfo="skip")
    return {**ring, "meta": {"tags": [], "ring": True}}


def _layout(seen: View) -> dict[str, Any]:
    axis = {"gridcolor": "var(--line)", "zerolinecolor": "var(--line)", "color": "var(--muted)", "showspikes": False}
    named = {f"{name}axis": {**axis, "title": {"text": label}} for name, label in zip("xyz", seen.labels, strict=False)}
    if len(seen.labels) == 3:
        for one in named.values():
            one |= {"showbackground": False, "nticks": 5}
        camera = {"eye": {"x": 1.35, "y": 1.35, "z": 0.8}, "center": {"x": 0, "y": 0, "z": -0.12}}
        return {"scene": {**named, "aspectmode": "auto", "camera": camera}, "margin": dict.fromkeys("lrtb", 0)}
    if seen.labels[0] != "time step":
        named["yaxis"] |= {"scaleanchor": "x"}
    return {**named, "margin": {"l": 60, "r": 15, "t": 35, "b": 58}}


def _legend(fp: FixedPoints, seen: View) -> list[LegendEntry]:
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


def _coordinates(seen: View, driven: bool) -> str:
    if seen.labels[0] == "time step":
        return "Time runs to the right; the fixed points stand at its end."
    if not seen.principal:
        return "The axes are the state's own coordinates."
    return f"The axes are principal components of the {'trajectories' if driven else 'fixed points'}."


def _alt(fp: FixedPoints, seen: View) -> str:
    content = f"{plural(len(fp), 'fixed point')}, {plural(len(seen.slow), 'slow point')} and "
    return f"View of {content}{plural(len(seen.paths), 'trajectory', 'trajectories')} in {len(seen.labels)} dimensions."
