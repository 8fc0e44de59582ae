"""Common base of the studies of relational networks (Kerg, chapters 5 and 7, appendix C)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from mnemoscope.config.run_config import ENDLESS_EVALUATION, changed
from mnemoscope.replication.claims import Row, Subject, with_reason
from mnemoscope.replication.differences import Difference, measure_difference
from mnemoscope.replication.learning_study import LearningStudy, by_name, finite
from mnemoscope.replication.study import Finished, Trial
from mnemoscope.replication.verdicts import Judgement, Obstacle, Verdict, not_compared
from mnemoscope.studies.kerg2022 import relational_reasons as reasons
from mnemoscope.studies.kerg2022.relational_claims import NO_WORSE, UNSEEN_SHAPES, Contrast, Reported
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
OVER_M = " For several m, lines with dots show unseen shapes and short dashes show seen shapes."
"""Addition to the caption for figures with several m."""


class ContrastResult(NamedTuple):
    """Measured accuracies of both sides of a contrast."""

    first: float
    """Mean accuracy of the networks that are claimed to be better."""
    second: float
    """Mean accuracy of the other networks."""
    runs: list[Finished]
    gains: dict[str, Difference]
    """Difference of each pair, by the name of its first network; without pairs, the single difference."""

    @property
    def gain(self) -> float:
        """Difference of the mean accuracies."""
        return self.first - self.second


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

    def measure(self, run: Path) -> dict[str, Any]:
        """Return the accuracy in each of the tests."""
        model, task, config = load_model(run)
        model = model.to(config.device)
        number = self.evaluations * (config.evaluate_batches or ENDLESS_EVALUATION)
        accuracies = {}
        for name, (tested, split) in self.tests(task).items():
            batches = (tested.batch(config.batch_size, config.seed, index, split) for index in range(number))
            accuracies[name] = evaluate(model, tested, (batch.to(config.device) for batch in batches))["accuracy"]
        return {name: round(accuracy, 5) for name, accuracy in accuracies.items()}

    def as_published(self, trial: Trial) -> bool:
        """Whether a trial has the published recipe or, if its network is not in the source, the one defined here."""
        changes = self.other_recipes.get(trial.subject.network, {})
        published = changed(self.base, {**TASKS[trial.subject.task], **changes})
        return all(trial.settings[name] == getattr(published, name) for name in self.recipe)

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for trials in by_name(results).values():
            for key, quantity in self.tested_quantities(trials).items():
                values = [run.result[key] for run in finite(trials)]
                ours = over_seeds(values) + (", one seed" if len(values) == 1 else "")
                row = self.row(trials, quantity, values, ours=ours, remark=self.remark(trials, key))
                rows.append(self.with_explanation(row, finite(trials), values, key))
        return [*rows, *self.contrast_rows(results)]

    def with_explanation(self, row: Row, trials: Sequence[Finished], values: Sequence[float], key: str) -> Row:
        """Return the row with the reason why it differs, if the runs show one.

        An accuracy is not compared if the published one and ours are both near a guess.
        """
        claim = row.claim
        if claim is None or not row.verdict.compared:
            return row
        best = max(claim.mean or 0.0, mean(values)) if isinstance(claim, Reported) else inf
        if claim.chance is not None and best < claim.chance + reasons.LEARNED:
            reason = f"neither is much above chance, {percent(claim.chance)}"
            return replace(row, judgement=not_compared(Obstacle.CHANCE, reason))
        if row.verdict not in (Verdict.DIFFERS, Verdict.WORSE) or row.judgement.reason:
            return row
        assert claim.agreement is not None
        published = claim.mean if isinstance(claim, Reported) and claim.mean is not None else claim.agreement.low
        has_curves = key == self.main_test
        return with_reason(row, reasons.explain_difference(trials, values, claim.agreement, published, has_curves))

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
            gains = measured.gains
            gain = str(next(iter(gains.values()))) if len(gains) == 1 else f"{100 * measured.gain:+.1f}"
            ours = f"{gain} points: {percent(measured.first)} against {percent(measured.second)}"
            if len(gains) > 1:
                ours += f" ({', '.join(f'{network} {each}' for network, each in gains.items())})"
            seeds = Counter(run.trial.subject for run in measured.runs)
            fewest, most = min(seeds.values()), max(seeds.values())
            if most > 1:
                ours += f"; {most} seeds" if fewest == most else f"; {fewest} to {most} seeds"
            missing = [subject.network for subject in (*contrast.first, *contrast.second) if subject not in seeds]
            ours += f"; without {', '.join(missing)}" if missing else ""
            single = dict.fromkeys(subject.network for subject, number in seeds.items() if number == 1)
            ours += f"; one seed of {' and '.join(single)}" if single else ""
            row = self.compare(measured.runs, contrast, [each.gain for each in gains.values()], ours)
            # A difference belongs to no network: the row counts none, and `ours` has the seeds and standard errors.
            rows.append(replace(self.judge_contrast(row, contrast, measured), measured=()))
        return rows

    def judge_contrast(self, row: Row, contrast: Contrast, measured: ContrastResult) -> Row:
        """Return the row with the verdict on the differences, beyond what other seeds would change, and its reason.

        The row is not compared if the contrast decides nothing: neither side has learned the task, the second side
        leaves no room for a better one, or the seeds differ too much.
        """
        if not row.verdict.compared or contrast.agreement is None:
            return row
        least, chance = contrast.agreement.low, reasons.chance_accuracy(measured.runs)
        if max(measured.first, measured.second) < chance + reasons.LEARNED:
            reason = f"neither is much above chance, {percent(chance)}"
            return replace(row, judgement=not_compared(Obstacle.CHANCE, reason))
        if measured.second > 1 - least and NO_WORSE <= measured.gain < least:
            return replace(row, judgement=not_compared(Obstacle.NO_ROOM))
        row = replace(row, judgement=judge_pairs(measured.gains, least))
        if row.verdict is Verdict.DIFFERS:
            if contrast.reason:
                return with_reason(row, contrast.reason)
            first, second = (
                [run for run in measured.runs if run.trial.subject in side]
                for side in (contrast.first, contrast.second)
            )
            return with_reason(row, reasons.explain_contrast(first, second, self.main_test, measured.gain, least))
        return row

    def measure_contrast(self, results: Sequence[Finished], contrast: Contrast) -> ContrastResult | None:
        """Return the measured accuracies of both sides of a contrast; None if networks are missing."""
        runs: dict[Subject, list[Finished]] = {}
        for run in finite(results):
            runs.setdefault(run.trial.subject, []).append(run)
        if (sides := contrast.available(runs)) is None:
            return None
        means = [
            {subject: mean(run.result[self.main_test] for run in runs[subject]) for subject in side} for side in sides
        ]
        first, second = (mean(side.values()) for side in means)
        ours, theirs = ([[run.result[self.main_test] for run in runs[subject]] for subject in side] for side in sides)
        tested_together = sum(len(each.first) if each.paired else 1 for each in self.contrasts)
        gains = {"": measure_difference(ours, theirs, tested_together)}
        if contrast.paired:
            gains = {
                subject.network: measure_difference([one], [other], tested_together)
                for subject, one, other in zip(sides[0], ours, theirs, strict=True)
            }
        tested = [run for side in sides for subject in side for run in runs[subject]]
        return ContrastResult(first, second, tested, gains)

    def figure(self, results: Sequence[Finished]) -> Figure:
        """Draw the accuracy of each network on each task: one dot per seed, and curves over m if there are several."""
        means = {(claim.subject, claim.quantity): claim.mean for claim in self.claims if isinstance(claim, Reported)}
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


def judge_pairs(gains: Mapping[str, Difference], least: float) -> Judgement:
    """Judge the differences of all pairs of networks together."""
    judgements = {network: each.judge(least) for network, each in gains.items()}
    by_verdict = {
        verdict: [name for name, each in judgements.items() if each.verdict is verdict] for verdict in Verdict
    }
    matching = by_verdict[Verdict.MATCHES]
    if matching and len(matching) < len(judgements):
        parts = {
            "not so for": by_verdict[Verdict.DIFFERS],
            "the seeds do not decide it for": by_verdict[Verdict.NOT_COMPARED],
        }
        reason = "; ".join(f"{words} {' and '.join(names)}" for words, names in parts.items() if names)
        return Judgement(Verdict.IN_PART, reason, (len(matching), len(judgements)))
    if by_verdict[Verdict.DIFFERS]:
        return Judgement(Verdict.DIFFERS)
    return next(iter(judgements.values()))


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
