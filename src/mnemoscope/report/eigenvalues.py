"""The eigenvalues of every fixed point in the complex plane, with the stability boundary."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.base.plurals import pluralise
from mnemoscope.lenses.fixed_points.figure import drawn_eigenvalues, groups
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.report.document import Section
from mnemoscope.report.markup import LegendEntry, plot_markup
from mnemoscope.report.numbers import format_number
from mnemoscope.report.plots import SYMBOLS, layout, ring, trace


def eigenvalue_section(fp: FixedPoints) -> Section:
    """Return the section with the complex plane."""
    boundary = "left of the vertical line" if fp.continuous else "inside the unit circle"
    lead = f"Modes {boundary} decay and the others grow, slowly near the boundary. Modes off the real axis rotate."
    shown, size = drawn_eigenvalues(fp).shape[1], fp.states.shape[1]
    omitted = f"Only the {shown} least stable of the {size} eigenvalues of each point are drawn."
    notes = [omitted] if shown < size else []
    legend = [LegendEntry(group.key, group.label, group.key, SYMBOLS[group.kind]) for group in groups(fp)]
    alt = f"Eigenvalues of {pluralise(len(fp), 'fixed point')} in the complex plane."
    return Section("Eigenvalues", lead, plot_markup("eigenvalues", spec(fp), alt=alt, legend=legend, notes=notes))


def spec(fp: FixedPoints) -> dict[str, Any]:
    """Return the figure as plain data."""
    values = drawn_eigenvalues(fp)
    data = [] if fp.continuous else [_circle()]
    for group in groups(fp):
        chosen = values[group.members]
        text = [
            f"<b>fixed point {point}</b>, mode {mode}<br>λ = {_complex(value)}<br>{_pace(value, fp.continuous)}"
            for point, row in zip(group.members, chosen.tolist(), strict=True)
            for mode, value in enumerate(row)
        ]
        names = [str(point) for point in group.members for _ in range(chosen.shape[1])]
        marker = {"symbol": SYMBOLS[group.kind], "size": 8, "opacity": 0.8, "color": f"var(--{group.key})"}
        marker["line"] = {"color": "var(--ground)", "width": 0.5}
        style = {"mode": "markers", "marker": marker, "text": text, "hoverinfo": "text", "customdata": names}
        data.append(_plane(chosen.ravel(), [group.key], **style))
    data.append(ring(2, size=13, width=2))
    plane = layout(("Re λ", "Im λ"), equal_scales=not fp.continuous)
    if fp.continuous:
        line = {"color": "var(--muted)", "width": 1.5}
        plane["shapes"] = [{"x0": 0, "line": line}]
    return {"data": data, "layout": plane}


def _plane(values: NDArray[np.complex128], tags: list[str], **style: Any) -> dict[str, Any]:
    return trace(np.stack([values.real, values.imag], 1), tags, **style)


def _circle() -> dict[str, Any]:
    turn = np.exp(1j * np.linspace(0, 2 * np.pi, 181))
    line = {"color": "var(--muted)", "width": 1.2}
    return _plane(turn, [], mode="lines", line=line, fill="toself", fillcolor="var(--inside)", hoverinfo="skip")


def _complex(value: complex) -> str:
    if value.imag == 0:
        return format_number(value.real)
    return f"{format_number(value.real)} {'+' if value.imag > 0 else '−'} {format_number(abs(value.imag))}i"


def _pace(value: complex, continuous: bool) -> str:
    with np.errstate(divide="ignore"):
        growth = value.real if continuous else float(np.log(abs(value)))
    if growth == 0:
        return "neither grows nor decays"
    duration = f"{format_number(1 / abs(growth))}{'' if continuous else ' steps'}"
    return f"{'grows' if growth > 0 else 'decays'} by e in {duration}"
