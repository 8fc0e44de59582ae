"""The base class of studies: published claims, the trials that test them, and the comparison."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemoscope.config.hashing import without_later_defaults
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, Subject, as_subject
from mnemoscope.replication.verdicts import DIVERGED, Judgement, Obstacle, Verdict, not_compared
from mnemoscope.training.run_folder import environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


DEVICE = "device"
"""Name of the setting that says where a network is trained."""


@dataclass(frozen=True)
class Trial:
    """One run of a study: everything that determines its result."""

    name: str
    settings: Mapping[str, Any]
    seed: int
    subject: Subject = EVERYTHING
    """Subject that selects the claims to compare with; not part of the hash."""

    @cached_property
    def hash(self) -> str:
        """Ten hexadecimal digits of the name, the settings and the seed; the trial's folder has this name."""
        settings = without_later_defaults(self.settings)  # a new field of runs must not change old hashes
        content = json.dumps({"name": self.name, "settings": settings, "seed": self.seed}, sort_keys=True)
        return sha256(content.encode()).hexdigest()[:10]

    def on(self, device: str | None) -> Trial:
        """Return what to run on another device, cpu or cuda; None, or a trial without a device, changes nothing."""
        if device not in (None, "cpu", "cuda"):
            raise ValueError(f"device must be cpu or cuda, but is {device!r}.")
        if device is None or DEVICE not in self.settings:
            return self
        return replace(self, settings={**self.settings, DEVICE: device})


@dataclass(frozen=True)
class Preset:
    """A size in which a study can be run: `smoke` (seconds, part of the tests), `cpu`, `paper`.

    A study whose published training exceeds our means has `reduced` and `published` instead (`ReducedStudy`).
    """

    summary: str
    settings: Mapping[str, Any]
    seeds: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Finished:
    """A finished trial and its measurements."""

    trial: Trial
    result: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    """Versions and machine of the run, and its device if it is not that of the trial's settings."""


class Study(ABC):
    """One published table or figure. A new study is one file with one subclass, and one line in the registry."""

    name: str
    title: str
    question: str
    """The question that the study asks, in one sentence."""
    claims: Sequence[Claim]
    """Published claims."""
    presets: Mapping[str, Preset]
    cites: Sequence[str] = ()
    """Keys of `registry/references.bib`."""
    lenses: Sequence[str] = ()
    """Names of the lenses that its trials use."""
    caption: str = ""
    """Caption of the figure."""
    seeded: bool = True
    """Whether a measurement depends on the seed, as that of a trained network does, so that one alone decides nothing.
    """
    resumes: bool = False
    """Whether an interrupted trial leaves a checkpoint, from which it continues when it is run again."""

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        """Return the grid of trials: by default `cases`, a table from subjects (or names) to settings of a trial."""
        cases = {as_subject(key): case for key, case in settings["cases"].items()}
        return [Trial(key.name, dict(case), seed, key) for key, case in cases.items() for seed in seeds]

    def trials_of(self, preset: str, seeds: Iterable[int]) -> Sequence[Trial]:
        """Return the trials of a preset; the same settings and seeds give the same trials, whose hashes are known."""
        settings, key = self.presets[preset].settings, (preset, tuple(seeds))
        made_of, trials = self._known_trials.get(key, (None, ()))
        if made_of is not settings:
            trials = tuple(self.trials(settings, key[1]))
            self._known_trials[key] = settings, trials
        return trials

    @cached_property
    def _known_trials(self) -> dict[tuple[str, tuple[int, ...]], tuple[Mapping[str, Any], tuple[Trial, ...]]]:
        """The settings and trials of each preset with its seeds."""
        return {}

    @abstractmethod
    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        """Run one trial in `folder`, which no other trial uses; the result must fit into JSON."""

    def environment(self, trial: Trial, folder: Path) -> dict[str, Any]:
        """Return the versions and the machine of a trial that has just been run in `folder`."""
        return environment()

    @abstractmethod
    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        """Return the rows of the table: published next to measured."""

    def claim(self, quantity: str, subject: Subject = EVERYTHING) -> Claim:
        """Return the claim about a quantity of a subject, or raise."""
        found = self.find_claim(quantity, subject)
        if found is None:
            raise LookupError(f"The study {self.name!r} has no claim about {quantity!r} of {subject.name or 'all'!r}.")
        return found

    def find_claim(self, quantity: str, subject: Subject = EVERYTHING) -> Claim | None:
        """Return the claim about a quantity of a subject, or None."""
        return next((each for each in self.claims if (each.quantity, each.subject) == (quantity, subject)), None)

    def subjects(self) -> dict[str, Subject]:
        """Return the subject of every trial of every preset, by the trial's name."""
        presets = self.presets.items()
        trials = (trial for name, preset in presets for trial in self.trials_of(name, preset.seeds[:1]))
        return {trial.name: trial.subject for trial in trials}

    def as_published(self, trial: Trial) -> bool:
        """Whether a trial has the published conditions; only such trials get a verdict."""
        return True

    def other_recipe(self, trial: Trial) -> str:
        """Return the settings of a training that differ from the published ones, as text; empty if none does."""
        return ""

    def reduced_recipe(self, trial: Trial) -> str:
        """Return the name of a recipe that is smaller than the published one, and what it reduces; empty for others."""
        return ""

    def other_recipes_of(self, trials: Sequence[Finished]) -> str:
        """Return the different texts of `other_recipe` for several trials, since seeds may have different settings."""
        return "; ".join(dict.fromkeys(filter(None, (self.other_recipe(each.trial) for each in trials))))

    def reduced_recipes_of(self, trials: Sequence[Finished]) -> str:
        """Return the different texts of `reduced_recipe` for several trials."""
        return "; ".join(dict.fromkeys(filter(None, (self.reduced_recipe(each.trial) for each in trials))))

    def compare(
        self,
        trials: Sequence[Finished],
        claim: Claim,
        measured: Sequence[float],
        ours: str,
        remark: str = "",
        quantity: str = "",
        *,
        diverged: int | None = None,
    ) -> Row:
        """Return the row that puts the measured values of these trials, as the text `ours`, next to a claim.

        Args:
            trials: the trials of the measured networks, and of those that diverged.
            claim: the claim.
            measured: the measured values, one for each network that has one.
            ours: the text for the measured values.
            remark: a remark on them.
            quantity: name of the row, by default that of the claim.
            diverged: number of networks without a value because they diverged; None: those of the trials. It is 0 for
                a value of all trials together.

        """
        diverged = count_diverged(trials) if diverged is None else diverged
        if all(self.as_published(each.trial) for each in trials):
            row = claim.compare(quantity or claim.name, measured, ours, remark, diverged)
            if self.seeded and not claim.by_construction and len({each.trial.seed for each in trials}) == 1:
                row = replace(row, judgement=_of_one_seed(row))
            return replace(row, recipe=self.other_recipes_of(trials), reduced=self.reduced_recipes_of(trials))
        obstacle = Obstacle.OTHER_CONDITIONS
        return claim.not_compared(quantity or claim.name, ours, remark, obstacle, measured=measured, diverged=diverged)

    def row(
        self,
        trials: Sequence[Finished],
        quantity: str,
        measured: Sequence[float],
        form: str = ".4g",
        remark: str = "",
        ours: str | None = None,
        *,
        diverged: int | None = None,
    ) -> Row:
        """Return the row that puts measured values next to the claim about their subject or all trials, if any.

        `ours` is the text for the measured values; by default they are written in the format `form`. `diverged` is as
        in `compare`.
        """
        trial = trials[0].trial
        name = f"{trial.name}: {quantity}"
        ours = listed(measured, form) or "none" if ours is None else ours
        claim = self.find_claim(quantity, trial.subject) or self.find_claim(quantity)
        if claim is None:
            return Row(name, "", ours, remark=remark)
        return self.compare(trials, claim, measured, ours, remark, name, diverged=diverged)

    def figure(self, results: Sequence[Finished]) -> Figure | None:
        """Draw the results with `drawing.svg` in the page's colours; None if the table suffices."""
        return None


def _of_one_seed(row: Row) -> Judgement:
    """Return the judgement of a row with one seed: only a mean may be judged, by the published spread."""
    agreement = None if row.claim is None else row.claim.agreement
    if not row.verdict.compared or agreement is None or (agreement.of_mean and row.measured):
        return row.judgement
    where = "in the range" if row.verdict is Verdict.MATCHES else "outside of the range"
    what = "one network" if len(row.measured) + row.diverged == 1 else "one seed"
    return not_compared(Obstacle.TOO_FEW, f"{what}, {DIVERGED if not row.measured else where}")


def count_diverged(trials: Iterable[Finished]) -> int:
    """Return the number of trials whose training did not stay finite."""
    return sum("failed" in each.result for each in trials)


def listed(values: Iterable[Any], form: str = "") -> str:
    """Return the values as text, separated by commas.

    >>> listed([0.25, 3], ".1f")
    '0.2, 3.0'
    """
    return ", ".join(f"{value:{form}}" for value in values)
