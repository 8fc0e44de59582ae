"""The scoreboard: every published claim of every study next to our measurement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from mnemoscope import registry
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, Subject
from mnemoscope.replication.results import PresetResults
from mnemoscope.replication.run_list import PlannedRun
from mnemoscope.replication.study import Study
from mnemoscope.replication.trial_files import subject_as_json
from mnemoscope.replication.verdict_counts import count_causes, count_verdicts, with_verb
from mnemoscope.replication.verdicts import (
    AGREEING,
    APART,
    DIVERGED,
    OTHER_RECIPE,
    REDUCED_RECIPE,
    UNKNOWN,
    Judgement,
    Obstacle,
    Verdict,
    judge_in_preset,
    not_compared,
)

BODIES_OF_WORK = ("karuvally2023", "karuvally2023notebook", "energy_notes", "kerg2022thesis", "renanse2021", "jang")
"""The works behind this project, in the order of the scoreboard; other works follow, this project comes last."""
THIS_PROJECT = "mnemoscope"
"""Work of claims that were not published: a study has derived them, and tests them together with the others."""
OF_CONDITIONS = (
    Obstacle.NO_RESULT,
    Obstacle.OTHER_CONDITIONS,
    Obstacle.SHORTER_TRAINING,
    Obstacle.NOT_MEASURED,
)
"""Obstacles that are known before the result: another preset may be without them."""
DISTANCES = {"published": 0, "paper": 1, "smoke": 3}
"""How far a preset is from the published conditions; that of the others is 2."""


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
    study: Study | None = None
    """Study that would measure the claim, if nothing has."""
    planned: PlannedRun | None = None
    """Shortest entry of the run list that would measure it."""

    @property
    def seeds(self) -> str:
        """How many networks agree with the claim, of how many, how many diverged, standard error and interval."""
        if self.row is None or not self.networks:
            return ""
        successes, error = self.row.successes, self.row.standard_error
        parts = [f"{self.networks}" if successes is None else f"{successes} of {self.networks}"]
        parts += [f"{self.row.diverged} diverged"] if self.row.diverged else []
        parts += [] if error is None else [f"± {error:.2g}"]
        interval = self.row.interval
        return ", ".join(parts) + ("" if interval is None else f"; {interval[0]:.3g} to {interval[1]:.3g}")

    @property
    def networks(self) -> int:
        """Number of measured networks, with those that diverged."""
        return 0 if self.row is None else len(self.row.measured) + self.row.diverged

    @property
    def recipe(self) -> str:
        """Settings of the training that differ from the published ones, or an empty text."""
        return "" if self.row is None else self.row.recipe

    @property
    def mark(self) -> str:
        """Mark of the verdict if the networks were not trained by the published recipe."""
        if self.row is not None and self.row.reduced:
            return ", by a reduced recipe" if self.verdict.compared else ""
        return ", by our recipe" if self.recipe and self.verdict.compared else ""

    @property
    def command(self) -> str:
        """Command that measures the claim, or has measured it."""
        if self.results is not None or self.study is None:
            return "" if self.results is None else self.results.command
        preset = self.planned.preset if self.planned else _nearest_presets(self.study).get(self.claim.subject, "")
        return f"mnemoscope study {self.study.name} --preset {preset}" if preset else ""

    @property
    def changed(self) -> str:
        """Remark that some trials had settings which the preset does not have any more, or an empty text."""
        trials = [] if self.results is None else self.results.changed
        number = sum(_concerns(self.claim.subject, each.trial.subject) for each in trials)
        return f"{number} {'trial' if number == 1 else 'trials'} by earlier settings" if number else ""

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
    def published(self) -> bool:
        """Whether the claim is published, and none of the kinds that are counted apart."""
        apart = self.reduced or self.claim.by_construction or self.claim.agreement is None
        return self.work != THIS_PROJECT and not apart

    @property
    def cause_unknown(self) -> bool:
        """Whether a measurement does not match and nobody knows why."""
        return any(UNKNOWN in line.judgement.reason for line in self.lines)

    @property
    def cause_untested(self) -> bool:
        """Whether a measurement does not match, and its reason is only a circumstance that was not tested as its cause.

        Such are another or a reduced recipe, and networks that diverged.
        """
        reasons = [line.judgement.reason for line in self.lines if line.verdict in APART]
        return not self.cause_unknown and any(
            reason.startswith((OTHER_RECIPE, REDUCED_RECIPE)) or reason.endswith(DIVERGED) for reason in reasons
        )

    @property
    def our_recipe(self) -> bool:
        """Whether a network was trained by another recipe than the published one."""
        return any(line.recipe for line in self.lines)

    @property
    def reduced(self) -> bool:
        """Whether the networks were trained by a reduced recipe, which makes the verdict one of another class."""
        return any(line.row is not None and bool(line.row.reduced) for line in self.lines)

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
        """Return all claims but those of this project, and those that are counted apart."""
        return [item for item in self.items if item.published]

    def reduced(self) -> list[Item]:
        """Return the published claims that were tested by a reduced recipe, which are counted apart."""
        return [item for item in self.items if item.work != THIS_PROJECT and item.reduced]

    def by_construction(self) -> list[Item]:
        """Return the published claims that hold by construction: numbers of parameters, proven bounds."""
        return [item for item in self.items if item.work != THIS_PROJECT and item.claim.by_construction]

    def without_result(self) -> list[Item]:
        """Return the published ideas, reports of other works and pictures, which state no result."""
        return [item for item in self.items if item.work != THIS_PROJECT and item.claim.agreement is None]

    def headline(self) -> str:
        """Count the published claims by verdict, cause and obstacle, and those by a reduced recipe, in sentences."""
        published = self.published()
        count = counts(published)
        compared = sum(item.verdict.compared for item in published)
        remarks = {Verdict.COMPATIBLE: "outside of the range of agreement, within the scatter of the seeds"}
        if ours := self._matches_by_our_recipe():
            remarks[Verdict.MATCHES] = f"{ours} of them by our own recipe"
        number = count_verdicts({verdict: count[verdict] for verdict in Verdict if verdict.compared}, remarks)
        not_compared = count_verdicts({Verdict.NOT_COMPARED: count[Verdict.NOT_COMPARED]})
        not_run = count_verdicts({Verdict.NOT_RUN: count[Verdict.NOT_RUN]})
        sentences = (
            f"Of {len(published)} published numbers and statements, {with_verb(compared, 'is', 'are')} compared"
            + (f": {number}." if number else "."),
            self.causes(),
            f"{not_compared}: {self.obstacles()}." if not_compared else "",
            f"{not_run}." if not_run else "",
            self._by_reduced_recipes(),
        )
        return " ".join(filter(None, sentences))

    def remarks(self) -> str:
        """Return what a table of the verdicts does not show: causes, obstacles, and what two verdicts mean."""
        ours = self._matches_by_our_recipe()
        sentences = (
            f"{ours} of the matches are by our own recipe." if ours else "",
            "Compatible: outside of the range of agreement, within the scatter of the seeds.",
            self.causes(verdicts="that are worse, match in part or differ"),
            f"Not compared: {found}." if (found := self.obstacles()) else "",
            self._unread(),
        )
        return " ".join(filter(None, sentences))

    def causes(self, verdicts: str = "last") -> str:
        """Count the published claims that are worse, match in part or differ by what is known of the cause."""
        apart = [item for item in self.published() if item.verdict in APART]
        unknown = sum(item.cause_unknown for item in apart)
        untested = sum(item.cause_untested for item in apart)
        return count_causes(len(apart) - unknown - untested, unknown, untested, verdicts)

    def obstacles(self) -> str:
        """Count the published claims that are not compared by the class of reason; "" if there are none."""
        found = Counter(item.obstacle for item in self.published() if item.obstacle)
        return ", ".join(f"{obstacle.value} ({number})" for obstacle, number in found.most_common())

    def _matches_by_our_recipe(self) -> int:
        return sum(item.our_recipe for item in self.published() if item.verdict is Verdict.MATCHES)

    def _by_reduced_recipes(self) -> str:
        """Count the claims that were tested by a reduced recipe, or return an empty text if none was."""
        if not (items := self.reduced()):
            return ""
        tested = f"{len(items)} more {'was' if len(items) == 1 else 'were'} tested and counted apart"
        return f"By a reduced recipe, {tested}: {count_verdicts(counts(items))}.{self._unread(before=' ')}"

    def _unread(self, before: str = "") -> str:
        """Count the matches by a reduced recipe whose figures nobody of this project has read; "" if there are none."""
        matches = [item for item in self.reduced() if item.verdict is Verdict.MATCHES]
        if not (number := sum(item.claim.source.unread for item in matches)):
            return ""
        figures = "cites a figure" if number == 1 else "cite figures"
        return f"{before}{number} of the {len(matches)} matches by a reduced recipe {figures} that we have not checked."

    def summary(self) -> str:
        """Return the headline, and the counts of claims that are true by construction or state no result."""
        apart, ideas = self.by_construction(), len(self.without_result())
        held = counts(apart)[Verdict.MATCHES]
        return (
            f"{self.headline()} {with_verb(len(apart), 'more is', 'more are')} true by construction, such as numbers "
            f"of parameters and proven bounds; {held} of them {'matches' if held == 1 else 'match'}. "
            f"{with_verb(ideas, 'more states', 'more state')} no result that a measurement could decide: ideas for "
            "later work, reports of other works, and pictures without a statement."
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
                    "networks": line.networks or None,
                    "successes": line.row.successes if line.row and line.networks else None,
                    "diverged": line.row.diverged if line.row else None,
                    "standard error": None if line.row is None else line.row.standard_error,
                    "our recipe": line.recipe,
                    "reduced recipe": "" if line.row is None else line.row.reduced,
                    "preset": line.preset,
                    "verdict": line.verdict.value,
                    "matching": line.judgement.matching,
                    "reason": line.judgement.reason,
                    "obstacle": None if line.judgement.obstacle is None else line.judgement.obstacle.value,
                    "command": line.command or None,
                    "path": str(line.results.path) if line.results else None,
                }
                for item in self.items
                for line in item.lines
            ],
        }


def counts(items: Iterable[Item]) -> Counter[Verdict]:
    """Count the items by verdict."""
    return Counter(item.verdict for item in items)


def make_scoreboard(results: Sequence[PresetResults], planned: Sequence[PlannedRun] = ()) -> Scoreboard:
    """Put every claim of every study next to its measurement.

    Where several presets measured a claim, the one nearest to the published conditions is shown, whatever its verdict:
    published, paper, the others, smoke last; among equal ones that of a named reduced recipe, whose other presets test
    causes, then that with the most networks, then the first of `results`.
    A preset whose conditions do not allow a comparison is shown only if no other one does.

    Args:
        results: results of presets.
        planned: the run list, which has the time that claims without a measurement would take.

    """
    items, planned = [], _with_queue(planned, results)
    for entry in registry.studies:
        study: Study = entry.load()
        of_study = [each for each in results if each.study.name == study.name]
        of_list = [each for each in planned if each.study.name == study.name]
        items += [_item(study, claim, of_study, of_list) for claim in study.claims]
    return Scoreboard(tuple(items), tuple(results))


def _item(study: Study, claim: Claim, results: Sequence[PresetResults], planned: Sequence[PlannedRun]) -> Item:
    quickest = _quickest(claim, planned)
    lines = [_line(claim, each, row, quickest) for each in results for row in each.rows if row.claim is claim]
    shown = min(
        (line.results for line in lines if line.results is not None),
        key=lambda each: _preference([line for line in lines if line.results is each], each.preset),
        default=None,
    )
    lines = [line for line in lines if line.results is shown] or [_without_measurement(study, claim, results, quickest)]
    verdicts = {line.verdict for line in lines if line.verdict.compared} or {line.verdict for line in lines}
    if verdicts == {*AGREEING}:
        verdicts = {Verdict.COMPATIBLE}
    return Item(study.name, claim, verdicts.pop() if len(verdicts) == 1 else Verdict.IN_PART, tuple(lines))


def _preference(lines: Sequence[Line], preset: str) -> tuple[bool, int, bool, int]:
    """Return how a preset is preferred, the smallest first. It does not depend on whether its networks agree."""
    hindered = all(line.judgement.obstacle in OF_CONDITIONS for line in lines)
    unnamed = not any(line.row is not None and line.row.reduced for line in lines)
    return hindered, DISTANCES.get(preset, 2), unnamed, -sum(line.networks for line in lines)


def _line(claim: Claim, results: PresetResults, row: Row, planned: PlannedRun | None) -> Line:
    judgement = judge_in_preset(results.preset, row.judgement)
    if not judgement.reason and judgement.verdict in APART:
        judgement = replace(judgement, reason=UNKNOWN)
    elif judgement.obstacle in (Obstacle.SHORTER_TRAINING, Obstacle.OTHER_CONDITIONS) and planned is not None:
        judgement = replace(judgement, reason=f"{judgement.reason}; planned, {_device_time(planned)}")
    return Line(row.quantity, claim, row.ours, judgement, results, row)


def _without_measurement(
    study: Study, claim: Claim, results: Sequence[PresetResults], planned: PlannedRun | None
) -> Line:
    if results and claim.agreement is None:
        return Line(claim.name, claim, "", not_compared(Obstacle.NO_RESULT, claim.reason), None)
    reason = claim.out_of_reach if planned is None else _device_time(planned)
    return Line(claim.name, claim, "", Judgement(Verdict.NOT_RUN, reason), None, study=study, planned=planned)


def _concerns(claim: Subject, trial: Subject) -> bool:
    """Whether a claim may be about a trial: neither network, task nor a condition of both differs."""
    same = claim.network in ("", trial.network) and claim.task in ("", trial.task)
    return same and all(trial[name] in (None, value) for name, value in claim.condition)


def _quickest(claim: Claim, planned: Sequence[PlannedRun]) -> PlannedRun | None:
    """Return the entry of the run list that measures a claim in the shortest time, one within reach if there is any.

    For a claim about several subjects, it is the longest of their entries, with the time of all of them. A claim that
    none of our runs measures has no entry.
    """
    if claim.out_of_reach:
        return None
    entries = []
    for subject in _measured_subjects(claim, planned):
        listed = [each for each in planned if subject in each.subjects]
        entries += [min(listed, key=lambda each: (bool(each.out_of_reach), each.seconds))] if listed else []
    if not entries:
        return None
    longest = max(entries, key=lambda each: each.seconds)
    return replace(longest, seconds=sum(each.seconds for each in entries))


def _measured_subjects(claim: Claim, planned: Sequence[PlannedRun]) -> Sequence[Subject]:
    """Return the subjects of the trials that measure a claim: its own, or those that it compares or averages.

    A comparison names its networks ("deltanet against gla") or what they have in common ("deltanet"), and a mean over
    tasks has a task that no trial has.
    """
    known = dict.fromkeys(trial.subject for each in planned for trial in each.trials)
    if not claim.subject.network or any(subject in known for subject in claim.subjects):
        return claim.subjects
    names, tasks = claim.subject.network.split(" against "), {subject.task for subject in known}
    return [
        subject
        for subject in known
        if any(subject.network == name or subject.network.startswith(f"{name} [") for name in names)
        and (subject.task == claim.subject.task or claim.subject.task not in tasks)
        and all(subject[name] in (None, value) for name, value in claim.subject.condition)
    ]


def _with_queue(planned: Sequence[PlannedRun], results: Sequence[PresetResults]) -> list[PlannedRun]:
    """Return the run list; each entry gets the device time of what is left before it."""
    done = {(each.study.name, each.preset): {one.trial.hash for one in each.finished} for each in results}
    found, seconds = [], 0.0
    for each in planned:
        found.append(replace(each, seconds_before=seconds))
        if not each.out_of_reach:
            stored = done.get((each.study.name, each.preset), set())
            seconds += each.seconds * sum(trial.hash not in stored for trial in each.trials)
    return found


def _device_time(planned: PlannedRun) -> str:
    """Return the device time of one seed, and why it is out of reach or the time before it."""
    time, before = f"{_hours(planned.seconds)} a seed", planned.seconds_before
    if planned.out_of_reach:
        return f"{time}: {planned.out_of_reach}"
    return f"{time}; {_hours(before)} of the run list, which come before it, are not done either" if before else time


def _hours(seconds: float) -> str:
    """Return a device time as text.

    >>> _hours(300), _hours(36_000)
    ('about 0.083 device hours', '10 device hours')
    """
    hours = seconds / 3600
    return f"about {hours:.2g} device hours" if hours < 10 else f"{hours:,.0f} device hours"


@cache
def _nearest_presets(study: Study) -> dict[Subject, str]:
    """Return the preset nearest to the published conditions with a trial about each subject."""
    presets = sorted(study.presets, key=lambda name: DISTANCES.get(name, 2))
    found = {EVERYTHING: presets[0]}
    for name in presets:
        for trial in study.trials_of(name, study.presets[name].seeds[:1]):
            found.setdefault(trial.subject, name)
    return found
