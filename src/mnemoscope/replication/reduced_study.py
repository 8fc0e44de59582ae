"""Studies of published trainings that exceed our means: named reduced recipes take their place."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from mnemoscope.config.run_config import RunConfig
from mnemoscope.replication.claims import LEARNED, Claim, Row, Subject, with_reason
from mnemoscope.replication.differences import measure_difference
from mnemoscope.replication.learning_study import LearningStudy, by_name, finite
from mnemoscope.replication.solving_study import differing_settings
from mnemoscope.replication.study import Finished, Trial, count_diverged, listed
from mnemoscope.replication.verdicts import APART, DIVERGED, REDUCED_RECIPE, Judgement, Obstacle, Verdict, not_compared
from mnemoscope.training import evaluate_tasks, load_model

COMPARED = (
    "hidden_size",
    "optimiser",
    "learning_rate",
    "weight_decay",
    "schedule",
    "clip",
    "steps",
    "batch_size",
    "cell_options",
    "task_options",
)
"""Settings in which a reduced recipe may differ from the published one."""


@dataclass(frozen=True)
class TestedCause:
    """Why networks differ from the published ones, as further runs with their seeds have shown."""

    seeds: frozenset[int]
    """Seeds of the networks about which the runs say something; with others, the cause is open."""
    reason: str


class ReducedStudy(LearningStudy):
    """Networks that are trained by the published recipe, or by a named one that is smaller.

    The name of a recipe is that of its runs: it is one of `published`, or one of `reduced`. Trials of other names, such
    as those of a smoke test, are not compared. A verdict by a reduced recipe is marked, and the scoreboard counts it
    apart from all others, since a smaller network or a shorter training may change the result in either direction.
    """

    published: Mapping[str, RunConfig]
    """The published recipe of each task, by the name of the task."""
    reduced: Mapping[str, str]
    """Names of the reduced recipes, each with what it is."""
    caption = "Learning curves: the median over the seeds, and their range."
    causes: Mapping[tuple[str, str], TestedCause] = {}
    """Why reduced trainings differ, as runs have shown, by the name of the trial and the quantity."""
    unlike: str = ""
    """How all trainings here differ from the published ones in what no setting holds; empty if they do not."""
    tests: ClassVar[tuple[int, int]] = (256, 8)
    """Sequences of a test batch, and test batches of the last measurement."""

    def published_recipe(self, trial: Trial) -> RunConfig:
        """Return the recipe by which the published network was trained."""
        return self.published[trial.settings["task"]]

    def unlike_published(self, trial: Trial) -> str:
        """Return how a training differs from the published one in what no setting holds, or where that is not known."""
        return self.unlike

    def reduced_recipe(self, trial: Trial) -> str:
        """Return the name of the trial's reduced recipe and the settings that differ from the published ones."""
        name = trial.settings["name"]
        differences = ", ".join(filter(None, (self._differences(trial), self.unlike_published(trial))))
        return f"{name}: {differences}" if name in self.reduced else ""

    def other_recipe(self, trial: Trial) -> str:
        """Return the settings of a training of the published size that differ from the published ones."""
        reduced = trial.settings["name"] in self.reduced
        return "" if reduced else ", ".join(filter(None, (self._differences(trial), self.unlike_published(trial))))

    def _differences(self, trial: Trial) -> str:
        """Return the settings that differ from the published ones; a trial is asked for them by each of its rows."""
        key = trial.hash, trial.subject
        if key not in self._known_differences:
            self._known_differences[key] = self._compare_settings(trial)
        return self._known_differences[key]

    @cached_property
    def _known_differences(self) -> dict[tuple[str, Subject], str]:
        return {}

    def _compare_settings(self, trial: Trial) -> str:
        theirs = {name: value for name, value in asdict(self.published_recipe(trial)).items() if name in COMPARED}
        ours = asdict(RunConfig(**trial.settings))
        for table in ("cell_options", "task_options"):  # only the options in which they differ
            names = theirs[table].keys() & ours[table].keys()
            theirs |= {name: theirs[table][name] for name in names}
            ours |= {name: ours[table][name] for name in names}
            del theirs[table]
        return differing_settings(ours, theirs)

    def as_published(self, trial: Trial) -> bool:
        """Whether a trial has the published recipe or one of the reduced ones."""
        return trial.settings["name"] in {self.published_recipe(trial).name, *self.reduced}

    def measure(self, run: Path) -> dict[str, Any]:
        """Return the scores on new test sequences, named "test ..."."""
        model, task, config = load_model(run, training_device=True)
        sequences, batches = self.tests
        measured = evaluate_tasks(model, {"test": task}, sequences=sequences, batches=batches, seed=config.seed)
        return {f"test {name}": round(value, 5) for name, value in measured["test"].items()}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        """Return the rows; a failure is compared only if at least half of the control's networks did not fail."""
        return [self._check_control(row, results) for row in self.measured_rows(results)]

    @abstractmethod
    def measured_rows(self, results: Sequence[Finished]) -> list[Row]:
        """Return the rows as measured, before failures are checked against their controls."""

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
        """Compare as other studies do; without a tested cause, the reduced recipe is the reason of a difference."""
        recipe = self.reduced_recipes_of(trials)
        remark = "; ".join(filter(None, (remark, recipe)))
        row = super().compare(trials, claim, measured, ours, remark, quantity, diverged=diverged)
        if row.verdict in (*APART, Verdict.BETTER) and recipe and not row.judgement.reason:
            tested = self.causes.get((trials[0].trial.name, claim.quantity))
            if tested is not None and tested.seeds == {each.trial.seed for each in trials}:
                return with_reason(row, tested.reason)
            return with_reason(row, f"{REDUCED_RECIPE} {recipe}")
        return row

    def contrast(
        self,
        results: Sequence[Finished],
        claim: Claim,
        first: Subject,
        second: Subject,
        *,
        score: str,
        comparisons: int,
        chance: float = 0.0,
    ) -> Row | None:
        """Return the row of a claim that one network is better than another, or None if either was not run.

        The difference is that of the networks that stayed finite. If one of the first kind did not, the claim agrees at
        most in part. Two networks that hardly do better than `chance` are not compared.
        """
        sides = [[each for each in results if each.trial.subject == subject] for subject in (first, second)]
        values = [[each.result[score] for each in finite(side)] for side in sides]
        trials = [*sides[0], *sides[1]]
        if not all(values) or not all(self.as_published(each.trial) for each in trials):
            return None
        reduced, diverged = self.reduced_recipes_of(trials), [count_diverged(side) for side in sides]
        failed = f"{diverged[0]} and {diverged[1]} {DIVERGED}" if any(diverged) else ""
        ours = " against ".join(listed(side, ".3g") for side in values)
        remark = "; ".join(filter(None, (failed, reduced)))
        row = measure_difference([values[0]], [values[1]], comparisons).compare(claim, ours, remark)
        if row.verdict in APART and max(map(fmean, values)) < chance + LEARNED:
            row = replace(row, judgement=not_compared(Obstacle.CHANCE, f"neither is much above chance, {chance:.3g}"))
        if diverged[0] and row.verdict is Verdict.MATCHES:
            row = replace(row, judgement=Judgement(Verdict.IN_PART, failed))
        if row.verdict in APART and reduced and not row.judgement.reason:
            row = with_reason(row, f"{REDUCED_RECIPE} {reduced}")
        return replace(row, recipe=self.other_recipes_of(trials), reduced=reduced)

    def control(self, claim: Claim) -> tuple[Subject, str] | None:
        """Return the networks that must learn for the failure that a claim states to say something, and their score.

        None: the claim states no failure.
        """
        return None

    def _check_control(self, row: Row, results: Sequence[Finished]) -> Row:
        claim = row.claim
        if claim is None or claim.agreement is None or row.verdict is not Verdict.MATCHES:
            return row
        control = self.control(claim)
        if control is None:
            return row
        subject, score = control
        values = [each.result[score] for each in finite([each for each in results if each.trial.subject == subject])]
        learned = sum(value not in claim.agreement for value in values)
        if values and 2 * learned >= len(values):
            return row
        outcome = f"learned the task in {learned} of {len(values)} trainings" if values else "was not run"
        network = "the same network" if subject == claim.subject else subject.name
        reason = f"a failure says little, since {network} {outcome} ({score})"
        return replace(row, judgement=not_compared(Obstacle.CHANCE, reason))

    def groups(self, results: Sequence[Finished]) -> list[list[Finished]]:
        """Return the trials of each network on each task."""
        return list(by_name(results).values())
