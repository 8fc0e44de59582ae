"""The table of fixed points; a click on a heading sorts it, a click on a number shows the point in the pictures."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.report.frame import Section, fill
from mnemoscope.report.words import SYMBOLS, PointFacts, facts, number


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and by what it is sorted."""

    text: str
    key: float | str


@dataclass(frozen=True)
class Row:
    """One point."""

    name: str
    colour: str
    symbol: str
    cells: list[Cell]


def point_table(fp: FixedPoints) -> Section:
    """The section with every fixed point, the most stable first, and the slow points below in a table of their own."""
    lead = "Click a heading to sort, a number to find that point in the pictures; numbers are indices into the result."
    tables = [("Fixed points", _rows(facts(fp)))] if len(fp) else []
    if fp.slow is not None and len(fp.slow):
        slow = _rows(facts(fp.slow, slow=True))
        tables.append(("Slow points: the state creeps here, but does not rest", slow))
    return Section("Fixed points", lead, fill("table.html", tables=tables, headings=_headings(fp.continuous)))


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


def _rows(said: list[PointFacts]) -> list[Row]:
    ordered = sorted(said, key=lambda one: one.unstable)
    return [
        Row(one.name, one.colour, SYMBOLS["slow" if one.colour == "slow" else one.kind], _cells(one)) for one in ordered
    ]


def _cells(one: PointFacts) -> list[Cell]:
    measured = [Cell(number(value), "" if isnan(value) else value) for value in (one.largest, one.slowest, one.q)]
    return [
        Cell(one.description, one.description),
        Cell(str(one.unstable), one.unstable),
        *measured,
        Cell(f"{one.index:+d}".replace("-", "−") if one.index else "0", one.index),
        Cell(str(one.reached), one.reached),
    ]
