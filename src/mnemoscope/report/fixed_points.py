"""Facts about fixed points: the headline of the page, the text at a point, and the table of all points."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import isnan
from typing import Literal

from mnemoscope.lenses.fixed_points.figure import groups
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.slow_manifold.result import SlowManifold
from mnemoscope.report.document import Section
from mnemoscope.report.markup import render_template
from mnemoscope.report.numbers import format_number
from mnemoscope.report.plots import SYMBOLS


@dataclass(frozen=True)
class PointFacts:
    """One row of the table, and the text shown at a point."""

    name: str
    """The index of the point, `3` for `fp[3]`; `s3` for a slow point, `fp.slow[3]`."""
    description: str
    """Kind and shape, such as "stable node" or "spiral saddle"."""
    colour: str
    symbol: str
    unstable: int
    """Number of unstable directions."""
    largest: float
    """Largest |lambda| of a map, largest Re lambda of a flow."""
    slowest: float
    """Longest time constant, in steps of a map or in time of a flow."""
    q: float
    reached: int
    """Number of starts that ended here."""
    index: int

    @property
    def cells(self) -> list[tuple[str, float | str]]:
        """The cells of its row: each a text, and the value that the column is sorted by."""
        measured = (self.largest, self.slowest, self.q)
        return [
            (self.description, self.description),
            (str(self.unstable), self.unstable),
            *((format_number(value), "" if isnan(value) else value) for value in measured),
            (f"{self.index:+d}".replace("-", "−") if self.index else "0", self.index),
            (str(self.reached), self.reached),
        ]


@dataclass(frozen=True)
class Verdict:
    """Whether the set of fixed points is complete, as far as the index sum shows."""

    state: Literal["complete", "incomplete", "unknown"]
    badge: str
    reason: str


def point_facts(fp: FixedPoints, slow: bool = False) -> list[PointFacts]:
    """Return the facts about each point."""
    colours = {point: group.key for group in groups(fp) for point in group.members}
    leading = fp.eigenvalues.real if fp.continuous else fp.eigenvalues.abs()
    largest = leading.max(1).values.tolist() if len(fp) else []
    slowest = fp.time_constants.max(1).values.tolist() if len(fp) else []
    return [
        PointFacts(
            name=f"s{point}" if slow else f"{point}",
            description=description,
            colour="slow" if slow else colours[point],
            symbol=SYMBOLS["slow" if slow else kind],
            unstable=unstable,
            largest=largest[point],
            slowest=slowest[point],
            q=float(fp.q[point]),
            reached=int(fp.reached[point]),
            index=int(fp.index[point]),
        )
        for point, (kind, description, unstable) in enumerate(
            zip(fp.kind, fp.description, fp.unstable.tolist(), strict=True)
        )
    ]


def fixed_point_section(fp: FixedPoints) -> Section:
    """Return the section with every fixed point, the most stable first, and the slow points in a second table."""
    lead = (
        "Click a heading to sort, or a number to find that point in the pictures. The numbers are indices into the "
        "result."
    )
    tables = [("Fixed points", point_facts(fp))] if len(fp) else []
    if fp.slow is not None and len(fp.slow):
        tables.append(("Slow points: the state creeps here, but does not rest", point_facts(fp.slow, slow=True)))
    tables = [(caption, sorted(points, key=lambda point: point.unstable)) for caption, points in tables]
    headings = [
        ("Kind", "text"),
        ("Unstable directions", "number"),
        ("Largest Re\u00a0λ" if fp.continuous else "Largest |\u2060λ|", "number"),
        ("Slowest time constant", "number"),
        ("q", "number"),
        ("Index", "number"),
        ("Starts", "number"),
    ]
    return Section("Fixed points", lead, render_template("fixed_point_table.html", tables=tables, headings=headings))


def headline(fp: FixedPoints, slow_manifold: SlowManifold | None = None) -> str:
    """Return the result in two or three sentences; a slow manifold on which most states settle belongs to it."""
    points = _headline_of_points(fp)
    return points if slow_manifold is None else f"{points} {slow_manifold.verdict}"


def _headline_of_points(fp: FixedPoints) -> str:
    if len(fp) == 0 and fp.bounded:
        return "No fixed point was found, although a system that never leaves its box has one: the search missed it."
    if len(fp) == 0:
        return "No fixed point was found: at this input the network never rests, or the search missed where it does."
    count = Counter(fp.kind)
    stable, saddles = count["stable"], count["saddle"]
    parts = []
    if stable:
        parts.append(_are(stable, "stable") + (", where a memory can stay" if stable > 1 else ""))
    if saddles:
        parts.append(_are(saddles, "a saddle", "saddles") + (", near which paths part" if stable > 1 else ""))
    if count["unstable"]:
        parts.append(_are(count["unstable"], "unstable in every direction"))
    if count["marginal"]:
        parts.append(_are(count["marginal"], "marginal, on the very edge of stability"))
    closing = _closing(fp, stable, count["marginal"])
    if len(fp) == 1:
        return f"At this input one fixed point was found, and it {parts[0].partition(' ')[2]}.{closing}"
    if fp.continuum:
        return (
            f"At this input the network can rest at many points, of which {len(fp)} were found: {', '.join(parts)}. "
            f"They suggest a line or a surface of fixed points, a continuous attractor.{closing}"
        )
    split = f"all {parts[0].partition(' ')[2]}" if len(parts) == 1 else "; ".join([*parts[:-1], f"and {parts[-1]}"])
    return f"At this input the network can rest at {len(fp)} points: {split}.{closing}"


def _closing(fp: FixedPoints, stable: int, marginal: int) -> str:
    """Return a sentence on what the points mean for memory if no two of them can hold one."""
    if stable > 1 or marginal:
        return ""
    if not stable:
        stays = "It is not stable, so the network does not stay there"
        stays = stays if len(fp) == 1 else "None is stable, so the network stays at none of them"
        return f" {stays}: what it remembers, if anything, is in its motion."
    slowest = float(fp.time_constants[fp.kind.index("stable")].max())
    unit = "units of time" if fp.continuous else "steps"
    decay = f" Its slowest mode decays by a factor of e in {format_number(slowest)} {unit}." if slowest > 0 else ""
    return (
        f" A single stable point cannot tell inputs apart: what the network remembers, if anything, it holds on the "
        f"way there or elsewhere.{decay}"
    )


def completeness_verdict(fp: FixedPoints) -> Verdict:
    """Return the completeness of the set, judged by its certificate, or by the index sum."""
    if fp.certificate is not None and fp.certificate.complete:
        return Verdict("complete", "Certified complete", fp.completeness)
    if fp.may_be_complete is None:
        return Verdict("unknown", "Completeness unknown", fp.completeness)
    if fp.may_be_complete and fp.doubt:
        return Verdict("unknown", "Completeness in doubt", fp.completeness)
    if fp.may_be_complete:
        return Verdict("complete", "Index sum agrees", fp.completeness)
    return Verdict("incomplete", "Incomplete", fp.completeness)


def _are(count: int, singular: str, plural: str | None = None) -> str:
    return f"{count} is {singular}" if count == 1 else f"{count} are {plural or singular}"
