"""Fixed points in words: what a reader should know before looking at any picture."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import isinf, isnan
from typing import Literal

from mnemoscope.lenses.fixed_points.figure import groups
from mnemoscope.lenses.fixed_points.result import FixedPoints, Status

SYMBOLS = {"stable": "circle", "saddle": "diamond", "unstable": "square", "marginal": "cross", "slow": "circle-open"}
"""Plotly's names of the shapes that tell the kinds apart without colour."""


@dataclass(frozen=True)
class PointFacts:
    """One line of the table, and the text shown at a point."""

    name: str
    """The index of the point, `3` for `fp[3]`; `s3` for a slow point, `fp.slow[3]`."""
    kind: str
    description: str
    """Such as "stable node" or "spiral saddle"."""
    colour: str
    unstable: int
    largest: float
    """Largest |lambda| of a map, largest Re lambda of a flow."""
    slowest: float
    q: float
    reached: int
    index: int


@dataclass(frozen=True)
class Verdict:
    """Whether the set of fixed points is complete, as far as the index sum tells."""

    state: Literal["complete", "incomplete", "unknown"]
    badge: str
    reason: str


def facts(fp: FixedPoints, slow: bool = False) -> list[PointFacts]:
    """What is to be said of each point."""
    colours = {point: group.key for group in groups(fp) for point in group.members}
    leading = fp.eigenvalues.real if fp.continuous else fp.eigenvalues.abs()
    largest = leading.max(1).values.tolist() if len(fp) else []
    slowest = fp.time_constants.max(1).values.tolist() if len(fp) else []
    return [
        PointFacts(
            name=f"s{point}" if slow else f"{point}",
            kind=kind,
            description=description,
            colour="slow" if slow else colours[point],
            unstable=up,
            largest=largest[point],
            slowest=slowest[point],
            q=float(fp.q[point]),
            reached=int(fp.reached[point]),
            index=int(fp.index[point]),
        )
        for point, (kind, description, up) in enumerate(zip(fp.kind, fp.description, fp.unstable.tolist(), strict=True))
    ]


def lead(fp: FixedPoints) -> str:
    """The result in a sentence or two."""
    count = Counter(fp.kind)
    if len(fp) == 0 and fp.bounded:
        return (
            "No fixed point was found, although a system that never leaves its box has one: the search has missed it."
        )
    if len(fp) == 0:
        return (
            "No fixed point was found: at this input the network never rests, or the search has missed where it does."
        )
    stable, saddles = count["stable"], count["saddle"]
    parts = []
    if stable:
        parts.append(_are(stable, "stable") + (", where a memory can stay" if stable > 1 else ""))
    if saddles:
        parts.append(_are(saddles, "a saddle", "saddles") + (", the passes between them" if stable > 1 else ""))
    if count["unstable"]:
        parts.append(_are(count["unstable"], "unstable in every direction"))
    if count["marginal"]:
        parts.append(_are(count["marginal"], "marginal, on the very edge of stability"))
    if len(fp) == 1:
        return f"At this input the network has one fixed point, and it {parts[0].partition(' ')[2]}."
    split = f"all {parts[0].partition(' ')[2]}" if len(parts) == 1 else _joined(parts)
    closing = "" if stable or count["marginal"] else " None is stable, so the network stays at none of them."
    return f"At this input the network can rest at {len(fp)} points: {split}.{closing}"


def verdict(fp: FixedPoints) -> Verdict:
    """The completeness of the set, by the index sum."""
    if fp.may_be_complete is None:
        return Verdict("unknown", "Completeness cannot be told", fp.completeness)
    if fp.may_be_complete:
        return Verdict("complete", "Index sum agrees", fp.completeness)
    return Verdict("incomplete", "Incomplete", fp.completeness)


def ends(fp: FixedPoints) -> list[tuple[Status, int]]:
    """What became of the starts."""
    return [] if fp.starts is None else list(fp.starts.counts().items())


def number(value: float) -> str:
    """A number to three significant digits.

    >>> number(1234.5), number(2e-28), number(float("inf")), number(float("nan"))
    ('1234', '2e-28', '∞', '–')
    """
    if isnan(value):
        return "–"
    if isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.0f}" if 1000 <= abs(value) < 100_000 else f"{value:.3g}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> plural(1, "start"), plural(3, "start")
    ('1 start', '3 starts')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"


def _are(count: int, one: str, many: str | None = None) -> str:
    return f"{count} is {one}" if count == 1 else f"{count} are {many or one}"


def _joined(parts: list[str]) -> str:
    return "; ".join(parts[:-1]) + "; and " + parts[-1]
