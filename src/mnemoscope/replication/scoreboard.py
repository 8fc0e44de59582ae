"""The scoreboard: every published claim of every study next to our measurement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mnemoscope import registry
from mnemoscope.replication.claims import Claim, Row
from mnemoscope.replication.results import PresetResults
from mnemoscope.replication.study import Study
from mnemoscope.replication.trial_files import subject_as_json
from mnemoscope.replication.verdicts import Judgement, Obstacle, Verdict, not_compared

BODIES_OF_WORK = ("karuvally2023", "karuvally2023notebook", "energy_notes", "kerg2022thesis", "renanse2021", "jang")
"""The works behind this project, in the order of the scoreboard; other works follow, this project comes last."""
THIS_PROJECT = "mnemoscope"
"""Work of claims that were not published: a study has derived them, and tests them together with the others."""
UNKNOWN = "cause unknown"
"""Reason where a measurement does not match and the study gives no cause."""


@dataclass(frozen=True)
class Line:
    """One published claim next to one measurement."""

    quantity: str
    claim: Claim
    ours: str
    judgement: Judgement
    results: PresetResults | None
    """Results that contain the measurement; None if the claim was not measured."""
    row: Row | None = None
    """Row of the study with the measured values."""

    @property
    def seeds(self) -> str:
        """How many networks agree with the claim, of how many, and the standard error of their mean."""
        if self.row is None or not self.row.measured:
            return ""
        number, successes, error = len(self.row.measured), self.row.successes, self.row.standard_error
        counted = f"{number}" if successes is None else f"{successes} of {number}"
        return counted if error is None else f"{counted}, ± {error:.2g}"

    @property
    def preset(self) -> str:
        """Preset of the measurement, or an empty text."""
        return "" if self.results is None else self.results.preset

    @property
    def verdict(self) -> Verdict:
        """The verdict without its reason."""
        return self.judgement.verdict


@dataclass(frozen=True)
class Item:
    """One published claim and its lines: one for each network that was compared with it."""

    study: str
    claim: Claim
    verdict: Verdict
    lines: tuple[Line, ...]

    @property
    def work(self) -> str:
        """BibTeX key of the work that makes the claim."""
        return self.claim.source.work

    @property
    def cause_unknown(self) -> bool:
        """Whether a measurement does not match and nobody knows why."""
        return any(UNKNOWN in line.judgement.reason for line in self.lines)

    @property
    def obstacle(self) -> Obstacle | None:
        """Class of reason why nothing was compared; None if it was, or if nothing was run."""
        if self.verdict is not Verdict.NOT_COMPARED:
            return None
        return next((line.judgement.obstacle for line in self.lines if line.judgement.obstacle), Obstacle.NOT_MEASURED)


@dataclass(frozen=True)
class Scoreboard:
    """All claims, in the order of the studies."""

    items: tuple[Item, ...]
    results: tuple[PresetResults, ...]

    def works(self) -> list[str]:
        """Return the works that make a claim, this project last."""
        found = list(dict.fromkeys(item.work for item in self.items))
        first = [work for work in BODIES_OF_WORK if work in found]
        last = [THIS_PROJECT] if THIS_PROJECT in found else []
        return [*first, *(work for work in found if work not in (*first, *last)), *last]

    def claims_of(self, work: str) -> list[Item]:
        """Return the claims of one work."""
        return [item for item in self.items if item.work == work]

    def published(self) -> list[Item]:
        """Return all claims but those of this project and those that are true by construction."""
        return [item for item in self.items if item.work != THIS_PROJECT and not item.claim.by_construction]

    def by_construction(self) -> list[Item]:
        """Return the published claims that hold by construction: numbers of parameters, proven bounds."""
        return [item for item in self.items if item.work != THIS_PROJECT and item.claim.by_construction]

    def headline(self) -> str:
        """Count the claims that are compared by verdict, in a sentence."""
        published = self.published()
        count = counts(published)
        compared = sum(count[verdict] for verdict in Verdict if verdict.compared)
        parts = (
            f"{count[Verdict.MATCHES]} match",
            f"{count[Verdict.BETTER]} are better",
            f"{count[Verdict.IN_PART]} match in part",
            f"{count[Verdict.WORSE]} are worse",
            f"{count[Verdict.DIFFERS]} differ",
        )
        unknown = sum(item.cause_unknown for item in published)
        return (
            f"Of {len(published)} published numbers and statements, {compared} are compared: {', '.join(parts)} (for "
            f"{unknown} of these, the cause is unknown)."
        )

    def summary(self) -> str:
        """Count all claims by verdict, in sentences."""
        published = self.published()
        count, obstacles = counts(published), Counter(item.obstacle for item in published if item.obstacle)
        classes = ", ".join(f"{obstacle.value} ({number})" for obstacle, number in obstacles.most_common())
        apart = self.by_construction()
        held = counts(apart)[Verdict.MATCHES]
        return (
            f"{self.headline()} {count[Verdict.NOT_COMPARED]} are not compared: {classes or 'none'}. "
            f"{count[Verdict.NOT_RUN]} were not run. {len(apart)} more are true by construction, such as numbers of "
            f"parameters and proven bounds; {held} of them match."
        )

    def as_json(self) -> dict[str, Any]:
        """Return the scoreboard as plain data."""
        return {
            "summary": {work: dict(counts(self.claims_of(work))) for work in self.works()},
            "lines": [
                {
                    "study": item.study,
                    "work": item.work,
                    **subject_as_json(line.claim.subject),
                    "measured": line.claim.quantity,
                    "quantity": line.quantity,
                    "published": str(line.claim.value),
                    "source": str(line.claim.source),
                    "agreement": None if line.claim.agreement is None else str(line.claim.agreement),
                    "chosen": None if line.claim.agreement is None else line.claim.agreement.chosen,
                    "by construction": line.claim.by_construction,
                    "ours": line.ours,
                    "networks": len(line.row.measured) if line.row and line.row.measured else None,
                    "successes": line.row.successes if line.row and line.row.measured else None,
                    "standard error": None if line.row is None else line.row.standard_error,
                    "preset": line.preset,
                    "verdict": line.verdict.value,
                    "matching": line.judgement.matching,
                    "reason": line.judgement.reason,
                    "obstacle": None if line.judgement.obstacle is None else line.judgement.obstacle.value,
                    "command": line.results.command if line.results else None,
                    "path": str(line.results.path) if line.results else None,
                }
                for item in self.items
                for line in item.lines
            ],
        }


def counts(items: Iterable[Item]) -> Counter[Verdict]:
    """Count the items by verdict."""
    return Counter(item.verdict for item in items)


def make_scoreboard(results: Sequence[PresetResults]) -> Scoreboard:
    """Put every claim of every study next to its measurement.

    Where several presets measured a claim, the one nearest to the published conditions is shown, among those that
    allow a comparison: published, paper, the others, smoke last; among equal ones the first of `results`.
    """
    items = []
    for entry in registry.studies:
        study: Study = entry.load()
        of_study = sorted((each for each in results if each.study.name == study.name), key=_distance)
        items += [_item(study, claim, of_study) for claim in study.claims]
    return Scoreboard(tuple(items), tuple(results))


def _distance(results: PresetResults) -> int:
    return {"published": 0, "paper": 1, "smoke": 3}.get(results.preset, 2)


def _item(study: Study, claim: Claim, results: Sequence[PresetResults]) -> Item:
    lines = [_line(claim, each, row) for each in results for row in each.rows if row.claim is claim]
    compared = [line.results for line in lines if line.verdict.compared]
    shown = (compared or [line.results for line in lines] or [None])[0]
    lines = [line for line in lines if line.results is shown] or [_without_measurement(claim, bool(results))]
    verdicts = {line.verdict for line in lines if line.verdict.compared} or {line.verdict for line in lines}
    return Item(study.name, claim, verdicts.pop() if len(verdicts) == 1 else Verdict.IN_PART, tuple(lines))


def _line(claim: Claim, results: PresetResults, row: Row) -> Line:
    judgement = row.judgement
    if results.preset == "smoke" and judgement.verdict is not Verdict.NOT_COMPARED:
        judgement = not_compared(Obstacle.OTHER_CONDITIONS, "smoke only shows that the code runs")
    elif not judgement.reason and judgement.verdict in (Verdict.IN_PART, Verdict.WORSE, Verdict.DIFFERS):
        judgement = replace(judgement, reason=UNKNOWN)
    return Line(row.quantity, claim, row.ours, judgement, results, row)


def _without_measurement(claim: Claim, was_run: bool) -> Line:
    judgement = Judgement(Verdict.NOT_RUN)
    if was_run and claim.agreement is None:
        judgement = not_compared(Obstacle.NO_NUMBER, claim.reason)
    return Line(claim.name, claim, "", judgement, None)
