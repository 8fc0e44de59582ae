"""Common base of the studies of relational networks (Kerg, chapters 5 and 7, appendix C)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from mnemoscope.config.run_config import ENDLESS_EVALUATION, changed
from mnemoscope.replication.claims import Row, Subject, with_reason
from mnemoscope.replication.learning_study import LearningStudy, by_name, finite
from mnemoscope.replication.study import Finished, Trial
from mnemoscope.replication.verdicts import UNKNOWN, Obstacle, Verdict
from mnemoscope.studies.kerg2022 import relational_contrasts as contrasts, relational_reasons as reasons
from mnemoscope.studies.kerg2022.relational_claims import UNSEEN_SHAPES, Contrast
from mnemoscope.studies.kerg2022.relational_contrasts import ContrastResult
from mnemoscope.studies.kerg2022.relational_figure import Panel, draw_accuracies
from mnemoscope.studies.kerg2022.relational_grid import BASE, TASKS
from mnemoscope.studies.kerg2022.relational_reasons import percent
from mnemoscope.tasks import Split, Task
from mnemoscope.training import evaluate, load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAPTION = (
    "Accuracy on unseen shapes, one dot per seed. Diamonds: means on training shapes. Long dashes: accuracy of a guess."
)
"""Caption of every figure."""
OTHER_NETWORKS = ("santoro2017", "vaswani2017", "munkhdalai2019", "graves2014", "hochreiter1997")
"""Works to cite for networks that are not made for relations."""
DRIFT = 0.005
"""Smallest loss of accuracy on unseen shapes during training that a row reports."""
TESTED_AT_ONCE = 1024
"""Problems that are drawn and tested at once, which is faster than by the batches of training."""
OVER_M = " For several m, lines with dots show unseen shapes and short dashes show seen shapes."
"""Addition to the caption for figures with several m."""


class RelationalStudy(LearningStudy):
    """Networks on tasks with m shapes held out, compared by their accuracy on unseen shapes.

    A trial is a network on a task at an m. `make_grid` makes the `networks` of a preset; `seeds` of a preset lists
    networks that run with fewer seeds. The table has the rows of the grid, then those of the contrasts. Learning
    curves show unseen shapes. The final network is tested, even if an earlier one was better.
    """

    base = BASE
    score = "accuracy"
    score_in_words = "accuracy"
    caption = CAPTION
    unseen: Mapping[str, tuple[str, str]] = {"test": UNSEEN_SHAPES}
    """Tests with unseen objects: keys of `tests`, each with the name of its quantity, and the name if no shapes are
    held out."""
    watched: Mapping[str, Sequence[str]] = {}
    """Networks whose learning curves the figure shows, by task."""
    evaluations = 8
    """Length of a test, in evaluations of training. With 32 batches of 96 problems, an accuracy of 90% has a standard
    error of 0.5 points."""
    recipe: Sequence[str] = ("optimiser", "learning_rate", "schedule", "weight_decay", "clip", "steps", "batch_size")
    """Settings that must equal the published ones for a trial to be compared."""
    other_recipes: Mapping[str, Mapping[str, Any]] = {}
    """Changes of the published recipe for networks that are not in the source, by name."""
    further_runs: Mapping[tuple[Subject, str], str] = {}
    """Results of further runs that bear on an unknown cause, by the subject of the trials and the key of the test."""

    def __init_subclass__(cls) -> None:
        """Name the runs of a study after it."""
        cls.base = replace(cls.base, name=cls.name)

    @property
    def contrasts(self) -> list[Contrast]:
        """Claims about networks against others."""
        return [claim for claim in self.claims if isinstance(claim, Contrast)]

    @property
    def main_test(self) -> str:
        """The test with unseen objects that learning curves and contrasts are about: the first one."""
        return next(iter(self.unseen))

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        return [with_other_shapes(trial) for trial in super().trials(settings, seeds)]

    def tests(self, task: Task) -> Mapping[str, tuple[Task, Split]]:
        """Return the tests of a trained network: "validation" with the training shapes, and the keys of `unseen`."""
        return {"test": (task, "test"), "validation": (task, "validation")}

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        result = super().run(trial, folder, progress)
        return result | {"curve": {name: result["curve"][name] for name in ("step", self.score)}}

    def measure(self, run: Path) -> dict[str, Any]:
        """Return the accuracy in each of the tests."""
        model, task, config = load_model(run, training_device=True)
        device = next(model.parameters()).device
        problems = self.evaluations * (config.evaluate_batches or ENDLESS_EVALUATION) * config.batch_size
        size = min(problems, TESTED_AT_ONCE)
        accuracies = {}
        for name, (tested, split) in self.tests(task).items():
            batches = (tested.batch(size, config.seed, index, split) for index in range(ceil(problems / size)))
            accuracies[name] = evaluate(model, tested, (batch.to(device) for batch in batches))["accuracy"]
        return {name: round(accuracy, 5) for name, accuracy in accuracies.items()}

    def as_published(self, trial: Trial) -> bool:
        """Whether a trial has the published recipe or, if its network is not in the source, the one defined here."""
        changes = self.other_recipes.get(trial.subject.network, {})
        published = changed(self.base, {**TASKS[trial.subject.task], **changes})
        return all(trial.settings[name] == getattr(published, name) for name in self.recipe)

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows, learners = [], self.learners(results)
        for trials in by_name(results).values():
            learner = trials[0].trial.subject.network in learners
            for key, quantity in self.tested_quantities(trials).items():
                values = [run.result[key] for run in finite(trials)]
                ours = over_seeds(values) + (", one seed" if len(values) == 1 else "")
                row = self.row(trials, quantity, values, ours=ours, remark=self.remark(trials, key))
                rows.append(self.judged(row, finite(trials), values, key, learner))
        return [*rows, *self.contrast_rows(results)]

    def learners(self, results: Sequence[Finished]) -> set[str]:
        """Return the networks that learned one of their tasks: they came halfway from chance to perfect."""
        runs = finite(results)
        return {
            run.trial.subject.network for run in runs if self.accuracy(run) >= (1 + reasons.chance_accuracy([run])) / 2
        }

    def judged(self, row: Row, trials: Sequence[Finished], values: Sequence[float], key: str, learner: bool) -> Row:
        """Return the row of a network that may have learned other tasks, with the reason why it differs, if known."""
        claim = row.claim
        if claim is None or claim.agreement is None or row.judgement.obstacle is Obstacle.OTHER_CONDITIONS:
            return row
        row = replace(row, judgement=claim.judge(values, row.diverged, learner=learner))
        if row.verdict not in (Verdict.DIFFERS, Verdict.WORSE) or row.judgement.reason or not values:
            return row
        published = claim.agreement.low if claim.agreement.published is None else claim.agreement.published
        has_curves = key == self.main_test
        reason = reasons.explain_difference(trials, values, claim.agreement, published, has_curves)
        place = trials[0].trial.subject, key
        further = self.further_runs.get(place, "") if UNKNOWN in reason else ""
        return with_reason(row, "; ".join(filter(None, (reason, further))))

    def tested_quantities(self, trials: Sequence[Finished]) -> dict[str, str]:
        """Return the tests of `unseen` that a network had, with the names of their quantities; tasks may lack some."""
        runs, nothing_held_out = finite(trials), trials[0].trial.subject["m"] == 0
        return {
            key: names[nothing_held_out] for key, names in self.unseen.items() if all(key in run.result for run in runs)
        }

    def remark(self, trials: Sequence[Finished], key: str = "") -> str:
        """Return the accuracy on training shapes, the accuracy lost to drift, the parameters and the seconds."""
        runs = finite(trials)
        if not runs:
            return super().remark(trials)
        parts = [f"seen {percent(mean(run.result['validation'] for run in runs))}"]
        lost = max(reasons.drift(run) for run in runs)
        parts += [f"up to {100 * lost:.1f} points lost after the best evaluation"] if lost >= DRIFT else []
        return "; ".join([*parts, super().remark(trials), f"{mean(run.result['seconds'] for run in runs):,.0f} s"])

    def contrast_rows(self, results: Sequence[Finished]) -> list[Row]:
        """Return a row for each contrast whose networks, or some of whose pairs, were run."""
        rows = []
        for contrast in self.contrasts:
            if (measured := self.measure_contrast(results, contrast)) is None:
                continue
            gains = [each.gain for each in measured.gains.values()]
            row = self.compare(measured.runs, contrast, gains, contrasts.describe(contrast, measured))
            if row.verdict.compared or row.judgement.obstacle is Obstacle.TOO_FEW:
                row = replace(row, judgement=contrasts.judge(contrast, measured, self.accuracy))
            # A difference belongs to no network: the row counts none, and `ours` has the seeds and standard errors.
            rows.append(replace(row, measured=()))
        return rows

    def measure_contrast(self, results: Sequence[Finished], contrast: Contrast) -> ContrastResult | None:
        """Return the measured accuracies of both sides of a contrast; None if networks are missing."""
        together = sum(len(each.first) if each.by_pair else 1 for each in self.contrasts)
        return contrasts.measure(results, contrast, self.accuracy, together)

    def accuracy(self, run: Finished) -> float:
        """Return the accuracy of a run that contrasts are about."""
        return run.result[self.main_test]

    def figure(self, results: Sequence[Finished]) -> Figure:
        """Draw the accuracy of each network on each task: one dot per seed, and curves over m if there are several."""
        means = {(claim.subject, claim.quantity): claim.agreement.published for claim in self.claims if claim.agreement}
        panels: dict[tuple[str, str], Panel] = {}
        curves: dict[str, dict[str, list[Mapping[str, Sequence[float]]]]] = {}
        for run in finite(results):
            subject = run.trial.subject
            m = subject["m"]
            held_out = None if m is None else int(m)
            for key, quantity in self.tested_quantities([run]).items():
                title = subject.task if len(self.unseen) == 1 else f"{subject.task}, {quantity}"
                panel = panels.setdefault((subject.task, key), Panel(title, reasons.chance_accuracy([run])))
                panel.add(subject.network, held_out, run.result[key], run.result["validation"])
                published = means.get((subject, quantity))
                if published is not None:
                    panel.published[subject.network, held_out] = published
            if subject.network in self.watched.get(subject.task, ()):
                seeds = curves.setdefault(subject.task, {}).setdefault(subject.network, [])
                seeds.append(run.result["curve"])
        return draw_accuracies(list(panels.values()), curves)


def with_other_shapes(trial: Trial) -> Trial:
    """Return the trial with other shapes held out for each seed, as published, if its task holds out shapes."""
    options = trial.settings["task_options"]
    if "m" not in options:
        return trial
    return replace(trial, settings={**trial.settings, "task_options": {**options, "shape_seed": trial.seed}})


def over_seeds(values: Sequence[float]) -> str:
    """Return the mean, standard deviation, lowest and highest value as text, in percent.

    >>> over_seeds([0.96, 1.0]), over_seeds([0.5]), over_seeds([])
    ('98.0% ± 2.8 (96.0 to 100.0)', '50.0%', 'none')
    """
    if not values:
        return "none"
    if len(values) == 1:
        return percent(values[0])
    ends = f"{100 * min(values):.1f} to {100 * max(values):.1f}"
    return f"{percent(mean(values))} ± {100 * stdev(values):.1f} ({ends})"
