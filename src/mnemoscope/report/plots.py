"""Figures of fixed points as plain data that `plots.js` draws: symbols, traces and layouts, in the manner of plotly.

Colours are variables of `page.css`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from typing import Any

import numpy as np

SYMBOLS = {"stable": "circle", "saddle": "diamond", "unstable": "square", "marginal": "cross", "slow": "circle-open"}
"""Shapes by which the kinds of points differ without colour."""
CAMERA = {"eye": {"x": 1.35, "y": 1.35, "z": 0.8}}
"""Viewpoint of a plot in three dimensions."""


def trace(coordinates: np.ndarray, tags: Sequence[str], **style: Any) -> dict[str, Any]:
    """Return a scatter trace through coordinates (points, dims), which the legend entries of its tags show and hide."""
    kind = "scatter3d" if coordinates.shape[1] == 3 else "scatter"
    return {"type": kind, **columns(coordinates), "meta": {"tags": [*tags]}, **style}


def columns(coordinates: np.ndarray) -> dict[str, list[float | None]]:
    """Return coordinates (points, dims) as `x`, `y` and, in three dimensions, `z`."""
    return {axis: rounded(column) for axis, column in zip("xyz", coordinates.T, strict=False)}


def rounded(array: np.ndarray) -> list[float | None]:
    """Round numbers to four digits of their range, with None for those not finite, as short and valid JSON."""
    finite = array[np.isfinite(array)]
    extent = float(np.ptp(finite)) if len(finite) else 0.0
    digits = 4 - floor(log10(extent)) if extent > 0 else 6
    return [round(value, digits) if np.isfinite(value) else None for value in array.tolist()]


def ring(dims: int, size: float, width: float) -> dict[str, Any]:
    """Return the trace that marks the point selected in the table; it is empty until then."""
    line = {"color": "var(--ink)", "width": width}
    marker = {"symbol": "circle-open", "size": size, "color": "var(--ink)", "line": line}
    empty = trace(np.zeros((0, dims)), (), mode="markers", marker=marker, hoverinfo="skip")
    return {**empty, "meta": {"tags": [], "ring": True}}


def layout(labels: Sequence[str], *, equal_scales: bool = True) -> dict[str, Any]:
    """Return the layout of a plot with two or three labelled axes; two axes may have equal scales."""
    axes: dict[str, Any] = {
        f"{letter}axis": {"title": {"text": label}} for letter, label in zip("xyz", labels, strict=False)
    }
    if len(labels) == 3:
        return {"scene": {**axes, "aspectmode": "auto", "camera": CAMERA}}
    if equal_scales:
        axes["yaxis"]["scaleanchor"] = "x"
    return axes
