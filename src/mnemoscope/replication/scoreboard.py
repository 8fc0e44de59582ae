"""Everything that was published beside what came out here, over all studies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mnemoscope import registry
from mnemoscope.replication.results import Told
from mnemoscope.replication.study import NOT_COMPARED, Published, Row, Study

WORKS: Mapping[str, str] = {
    "Karuvally et al. 2023": r"Karuvally",
    "Notes on its energy": r"notes on the energy",
    "Kerg 2022": r"Kerg",
    "Renanse et al. 2021": r"Renanse",
    "Jang": r"Jang",
}
"""The five bodies of work behind the studies, and how the source of a published number names them."""
OTHERS = "Other sources"
OURS = "This project"
"""Not published: what a study has derived itself, and puts to the test beside what was."""
_OURS = r"this project|an earlier prototype|a prototype"
_OTHERS = r"Graves|pytorch-ntm"
KINDS = ("matches", "better", "in part", "worse", "differs", "not compared", "not run")
"""Verdicts in short, the best first; "in part": some networks agree and others do not."""
COMPARED = KINDS[:5]


@dataclass(frozen=True)
class Line:
    """One published number or statement beside one of ours."""

    quantity: str
    published: str
    source: str
    ours: str
    preset: str
    verdict: str
    """One of `KINDS`, with how many of how many networks where only some agree."""
    kind: str
    because: str
    """Why it differs or is not compared."""
    told: Told | None
    """Where ours is from; None: there is nothing of ours."""


@dataclass(frozen=True)
class Item:
    """One published number or statement, and what stands beside it: several networks may."""

    study: str
    work: str
    kind: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Scoreboard:
    """All of them, in the order of the studies."""

    items: tuple[Item, ...]
    told: tuple[Told, ...]

    def works(self) -> list[str]:
        """The works that something is from, our own last."""
        there = {item.work for item in self.items}
        return [work for work in (*WORKS, OTHERS, OURS) if work in there]

    def of_work(self, work: str) -> list[Item]:
        """What one work says."""
        return [item for item in self.items if item.work == work]

    def published(self) -> list[Item]:
        """All but our own."""
        return [item for item in self.items if item.work != OURS]

    def summary(self) -> str:
        """How many there are, and how they fared, in a sentence or two."""
        published = self.published()
        count = counts(published)
        compared = sum(count[kind] for kind in COMPARED)
        parts = [f"{count['matches']} match", f"{count['better']} are better", f"{count['in part']} match in part",
                 f"{count['worse']} are worse", f"{count['differs']} differ"]  # fmt: skip
        return (
            f"Of {len(published)} published numbers and statements {compared} are compared: {', '.join(parts)}. "
            f"{count['not compared']} are not compared, as ours were measured under other conditions or nothing was "
            f"stated that could be; {count['not run']} were not run."
        )

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "summary": {work: dict(counts(self.of_work(work))) for work in self.works()},
            "lines": [
                {
                    "study": item.study, "work": item.work, "quantity": line.quantity, "published": line.published,
                    "source": line.source, "ours": line.ours, "preset": line.preset, "verdict": line.verdict,
                    "because": line.because, "kind": line.kind, "command": line.told.command if line.told else None,
                    "path": str(line.told.path) if line.told else None,
                }
                for item in self.items for line in item.lines
            ],
        }  # fmt: skip


def counts(items: Iterable[Item]) -> Counter[str]:
    """How many of each kind."""
    return Counter(item.kind for item in items)


def make_scoreboard(told: Sequence[Told]) -> Scoreboard:
    """Set everything that the studies know as published beside what is told of their trials.

    Of several presets the one nearest to what was published is shown in which it was compared: published, paper, the
    others, smoke last. Of equal ones the first in `told`.
    """
    items = []
    for entry in registry.studies:
        study: Study = entry.load()
        own = sorted((one for one in told if one.study.name == study.name), key=_distance)
        items += [_item(study, one, own, entry.source) for one in study.published]
    return Scoreboard(tuple(items), tuple(told))


def work_of(source: str, of_study: str) -> str:
    """Which work a published number is from; one whose source names none is from that of its study.

    >>> work_of("ibid., Table 1", "Karuvally et al. 2023, section 9"), work_of("Ganguli et al. 2008; Kerg, 2.6", "")
    ('Karuvally et al. 2023', 'Kerg 2022')
    """
    if re.match(_OURS, source):
        return OURS
    for text in (source, of_study):
        named = [work for work, pattern in WORKS.items() if re.search(pattern, text)]
        if named:
            return named[0]
        if re.search(_OTHERS, text):
            return OTHERS
    return OTHERS


def _distance(one: Told) -> int:
    return {"published": 0, "paper": 1, "smoke": 3}.get(one.preset, 2)


def _item(study: Study, stated: Published, told: Sequence[Told], of_study: str) -> Item:
    rows = [(one, _fair(one, row)) for one in told for row in one.rows]
    rows = [(one, row) for one, row in rows if (row.stated or row.quantity) == stated.quantity]
    compared = [one for one, row in rows if row.verdict != NOT_COMPARED]
    shown = (compared or [one for one, _ in rows] or [None])[0]
    lines = tuple(_line(stated, one, row) for one, row in rows if one is shown)
    if not lines:
        kind, because = "not run", ""
        if told and stated.agreeing is None:
            kind, because = NOT_COMPARED, stated.because or "it is not measured"
        lines = (Line(stated.quantity, str(stated.value), stated.source, "", "", kind, kind, because, None),)
    kinds = {line.kind for line in lines if line.kind in COMPARED} or {line.kind for line in lines}
    kind = kinds.pop() if len(kinds) == 1 else "in part"
    return Item(study.name, work_of(stated.source, of_study), kind, lines)


def _fair(told: Told, row: Row) -> Row:
    """As the study tells it, but for smoke, which no study means to be compared."""
    if told.preset != "smoke" or row.verdict == NOT_COMPARED:
        return row
    return replace(row, verdict=NOT_COMPARED, because="smoke shows that the machinery works, no more")


def _line(stated: Published, told: Told, row: Row) -> Line:
    verdict = row.verdict.replace("agrees", "matches")
    kind = "in part" if verdict.startswith("matches in") else verdict
    because = row.because or ("it is not known why" if kind in ("in part", "worse", "differs") else "")
    return Line(row.quantity, str(stated.value), stated.source, row.ours, told.preset, verdict, kind, because, told)
