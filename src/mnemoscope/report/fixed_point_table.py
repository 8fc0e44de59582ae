"""The table of fixed points. A click on a heading sorts it; a click on a number shows the point in the pictures."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.report.document import Section
from mnemoscope.report.fixed_point_facts import SYMBOLS, PointFacts, point_facts
from mnemoscope.report.markup import render_template
from mnemoscope.report.numbers import format_number


@dataclass(frozen=True)
class Cell:
    """The text of a table cell, and the value that it is sorted by."""

    text: str
    key: float | str


@dataclass(frozen=True)
class Row:
    """One fixed point."""

    name: str
    colour: str
    symbol: str
    cells: list[Cell]


def fixed_point_section(fp: FixedPoints) -> Section:
    """Return the section with every fixed point, the most stable first, and the slow points in a second table."""
    lead = (
        "Click a heading to sort, or a number to find that point in the pictures. The numbers are indices into the "
        "result."
    )
    tables = [("Fixed points", _rows(point_facts(fp)))] if len(fp) else []
    if fp.slow is not None and len(fp.slow):
        slow = _rows(point_facts(fp.slow, slow=True))
        tables.append(("Slow points: the state creeps here, but does not rest", slow))
    html = render_template("fixed_point_table.html", tables=tables, headings=_headings(fp.continuous))
    return Section("Fixed points", lead, html)


def _headings(continuous: bool) -> list[tuple[str, str]]:
    largest = "Largest Re\u00a0λ" if continuous else "Largest |\u2060λ|"
    return [
        ("Kind", "text"),
        ("Unstable directions", "number"),
        (largest, "number"),
        ("Slowest time constant", "number"),
        ("q", "number"),
        ("Index", "number"),
        ("Starts", "number"),
    ]


def _rows(points: list[PointFacts]) -> list[Row]:
    return [
        Row(point.name, point.colour, SYMBOLS["slow" if point.colour == "slow" else point.kind], _cells(point))
        for point in sorted(points, key=lambda point: point.unstable)
    ]


def _cells(point: PointFacts) -> list[Cell]:
    measured = (point.largest, point.slowest, point.q)
    return [
        Cell(point.description, point.description),
        Cell(str(point.unstable), point.unstable),
        *(Cell(format_number(value), "" if isnan(value) else value) for value in measured),
        Cell(f"{point.index:+d}".replace("-", "−") if point.index else "0", point.index),
        Cell(str(point.reached), point.reached),
    ]
