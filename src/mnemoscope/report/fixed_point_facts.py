"""Facts about fixed points for the top of the page, the table and the plots."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from mnemoscope.lenses.fixed_points.figure import groups
from mnemoscope.lenses.fixed_points.result import FixedPoints, Status

SYMBOLS = {"stable": "circle", "saddle": "diamond", "unstable": "square", "marginal": "cross", "slow": "circle-open"}
"""Plotly's names of the shapes by which the kinds differ without colour."""


@dataclass(frozen=True)
class PointFacts:
    """One row of the table, and the text shown at a point."""

    name: str
    """The index of the point, `3` for `fp[3]`; `s3` for a slow point, `fp.slow[3]`."""
    kind: str
    description: str
    """Kind and shape, such as "stable node" or "spiral saddle"."""
    colour: str
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
            kind=kind,
            description=description,
            colour="slow" if slow else colours[point],
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


def headline(fp: FixedPoints) -> str:
    """Return the result in one or two sentences."""
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


def completeness_verdict(fp: FixedPoints) -> Verdict:
    """Return the completeness of the set, judged by the index sum."""
    if fp.may_be_complete is None:
        return Verdict("unknown", "Completeness unknown", fp.completeness)
    if fp.may_be_complete:
        return Verdict("complete", "Index sum agrees", fp.completeness)
    return Verdict("incomplete", "Incomplete", fp.completeness)


def start_outcomes(fp: FixedPoints) -> list[tuple[Status, int]]:
    """Return how many starts ended in each way."""
    return [] if fp.starts is None else list(fp.starts.counts().items())


def _are(count: int, singular: str, plural: str | None = None) -> str:
    return f"{count} is {singular}" if count == 1 else f"{count} are {plural or singular}"


def _joined(parts: list[str]) -> str:
    return "; ".join(parts[:-1]) + "; and " + parts[-1]
