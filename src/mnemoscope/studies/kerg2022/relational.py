"""Common base of the studies of relational networks (Kerg, chapters 5 and 7, appendix C)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from mnemoscope.config.run_config import ENDLESS_EVALUATION, RunConfig, changed
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import Claim, Row, Subject, about, with_reason
from mnemoscope.replication.learning_study import LearningStudy, by_name, finite
from mnemoscope.replication.study import Finished, Trial
from mnemoscope.replication.verdicts import Verdict
from mnemoscope.studies.kerg2022.relational_figure import Panel, draw_accuracies
from mnemoscope.studies.kerg2022.relational_reasons import (
    LEARNED,
    chance_accuracy,
    drift,
    explain_contrast,
    explain_difference,
    percent,
)
from mnemoscope.tasks import Split, Task
from mnemoscope.training import evaluate, load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROTOTYPE = Source("mnemoscope", "an earlier prototype of these networks, not published")
AND_PROTOTYPE = "and an earlier prototype of these networks, not published"
"""Appended to the place in a source if the number comes from a prototype."""
DRIFT = 0.005
"""Smallest loss of accuracy on unseen shapes during training that a row reports."""

BASE = RunConfig(
    "relational",
    task="rmts",
    cell="corelnet",
    optimiser="adam",
    learning_rate=5e-4,
    steps=5000,
    batch_size=96,
    evaluate_every=100,
    evaluate_batches=4,
    checkpoint_every=1000,
    threads=1,
)
"""Kerg, C.1 Table 1, and the released code: Adam without a schedule, 5,000 batches; the final network is tested."""
TASKS: dict[str, dict[str, Any]] = {
    "same/diff": {"task": "same-different"},
    "RMTS": {"task": "rmts"},
    "dist3": {"task": "distribution-of-n"},
    "identity rules": {"task": "identity-rules"},
    "RMTS3": {"task": "rmts3", "batch_size": 192},
    "same/diff 6": {"task": "same-different-6", "batch_size": 384},
    "identity rules 4": {"task": "identity-rules-4", "batch_size": 224},
    "dist10": {"task": "distribution-of-n", "task_options": {"n": 10}},
}
"""Tasks by their published names, with the batch size where it is not 96."""
EXTREME = {
    "same/diff": 98,
    "RMTS": 95,
    "dist3": 95,
    "identity rules": 95,
    "RMTS3": 94,
    "same/diff 6": 98,
    "identity rules 4": 94,
    "dist10": 89,
}
"""Most shapes held out of 100: training keeps as many as the problems need."""
HELD_OUT = (0, 50, 85)
"""Smaller numbers of held-out shapes (Webb et al. 2021; Kerg, C.8)."""
BASIC = ("same/diff", "RMTS", "dist3", "identity rules")
NEAR_PERFECT = (0.98, 1.0)
VERY_GOOD = (0.95, 1.0)
"""Ranges of accuracy that we take for "near perfect" and "very good"."""
FEW_STEPS: dict[str, Any] = {"steps": 4, "evaluate_every": 2, "evaluate_batches": 1, "batch_size": 12}
"""Settings of a smoke test that takes seconds."""


def network_on(network: str, task: str, m: int | None = None) -> Subject:
    """Return the subject of a trial: a network, a task, and the number of held-out shapes (None: no shapes).

    >>> network_on("corelnet", "RMTS", 95).name
    'corelnet, RMTS, m 95'
    """
    return about(network, task) if m is None else about(network, task, m=m)


def make_grid(
    networks: Mapping[str, Mapping[str, Any]],
    tasks: Mapping[str, Mapping[str, Any]],
    held_out: Mapping[str, Sequence[int]] | None = None,
) -> dict[Subject, dict[str, Any]]:
    """Return every network on every task, at every m of the task, as the `networks` of a preset.

    Args:
        networks: by name, each with changes of the run configuration (`cell`, `cell_options`, ...).
        tasks: by name, likewise (`task`, `task_options`, `batch_size`, ...); a network's changes override them.
        held_out: values of m for each task; None if the tasks have no shapes to hold out.

    >>> grid = make_grid({"esbn": {"cell": "esbn"}}, {"RMTS": {"task": "rmts"}}, {"RMTS": (50,)})
    >>> {subject.name: changes for subject, changes in grid.items()}
    {'esbn, RMTS, m 50': {'task': 'rmts', 'cell': 'esbn', 'task_options': {'m': 50}, 'cell_options': {}}}

    """
    grid = {}
    for task, task_changes in tasks.items():
        for m in [None] if held_out is None else held_out[task]:
            for network, network_changes in networks.items():
                options = {
                    name: {**task_changes.get(name, {}), **network_changes.get(name, {})}
                    for name in ("task_options", "cell_options")
                }
                options["task_options"] |= {} if m is None else {"m": m}
                grid[network_on(network, task, m)] = {**task_changes, **network_changes, **options}
    return grid


def at_extreme(tasks: Iterable[str]) -> dict[str, tuple[int]]:
    """Return the largest m of each task, in the form that `make_grid` expects."""
    return {task: (EXTREME[task],) for task in tasks}


def named(*networks: str) -> dict[str, dict[str, Any]]:
    """Return networks of the registry, with their published options, in the form that `make_grid` expects."""
    return {network: {"cell": network} for network in networks}


@dataclass(frozen=True)
class Reported(Claim):
    """A published accuracy with its mean, which the figure shows."""

    mean: float | None = None


def reported(subject: Subject, quantity: str, percent: float, deviation: float, source: Source) -> Reported:
    """Return the claim for a mean and its standard deviation over seeds, in percent; values within one deviation match.

    >>> reported(network_on("corelnet", "same"), "hexominoes", 94.7, 5.4, Source("kerg2022thesis", "Table 1")).value
    '94.7% ± 5.4'
    """
    tolerance = (percent - deviation) / 100, min(1.0, (percent + deviation) / 100)
    value = f"{percent}% ± {deviation}"
    return Reported(subject, quantity, value, source, tolerance, better="higher", mean=percent / 100)


DRIFTS = "its encoder maps unseen shapes closer together; a fixed random encoder solves it (relational-cognitive)"
"""Why CoRelNet misses identity rules."""
NO_NUMBERS = "a figure without numbers"
"""Why the published result cannot be compared."""
SIMPLE = "a simple decoder outperforms more complex architectures"
"""Claim about CoRelNet against ESBN and CoRelNet-T."""
BETTER = (0.01, 1.0)
"""Differences that count as better: one point or more."""
NO_WORSE = (-0.02, 1.0)
"""Differences that count as no worse: at most two points down."""


@dataclass(frozen=True)
class Contrast:
    """The claim that some networks are better than others, or no worse, tested by the difference of mean accuracies."""

    claim: Claim
    """The claim; its tolerance is a range of differences between mean accuracies (1 is 100 points)."""
    better: tuple[Subject, ...]
    worse: tuple[Subject, ...]
    paired: bool = False
    """Whether each network is compared with one of the other side; then some pairs may be missing."""

    def available(self, subjects: Collection[Subject]) -> tuple[tuple[Subject, ...], tuple[Subject, ...]] | None:
        """Return both sides if all their networks are among the subjects, or the complete pairs; None without any."""
        if not self.paired:
            return (self.better, self.worse) if {*self.better, *self.worse} <= {*subjects} else None
        pairs = [pair for pair in zip(self.better, self.worse, strict=True) if {*pair} <= {*subjects}]
        return (tuple(first for first, _ in pairs), tuple(second for _, second in pairs)) if pairs else None


class ContrastResult(NamedTuple):
    """Measured accuracies of both sides of a contrast."""

    better: float
    """Mean accuracy of the networks claimed to be better."""
    worse: float
    """Mean accuracy of the networks claimed to be worse."""
    runs: list[Finished]
    gains: dict[str, float]
    """Difference of each pair, by the name of its first network; without pairs, the single difference."""

    @property
    def gain(self) -> float:
        """Difference of the mean accuracies."""
        return self.better - self.worse


def make_contrast(
    statement: str,
    source: Source,
    task: str,
    m: int | None,
    better: Sequence[str],
    worse: Sequence[str],
    tolerance: tuple[float, float] = BETTER,
    *,
    paired: bool = False,
    reason: str = "",
) -> Contrast:
    """Return the contrast for a statement about networks against others on a task.

    >>> source = Source("kerg2022thesis", "Fig 5")
    >>> make_contrast("outperforms", source, "RMTS3", 94, ["corelnet"], ["esbn"]).claim.name
    'RMTS3, m 94: corelnet against esbn'
    """
    quantity = f"{' + '.join(better)} against {' + '.join(worse)}"
    first, second = (tuple(network_on(network, task, m) for network in side) for side in (better, worse))
    claim = Claim(network_on("", task, m), quantity, statement, source, tolerance, reason=reason)
    return Contrast(claim, first, second, paired)


CAPTION = (
    "Accuracy on unseen shapes, one dot per seed. Diamonds: means on training shapes. Long dashes: accuracy of a guess."
)
"""Caption of every figure."""
OVER_M = " For several m, lines with dots show unseen shapes and short dashes show seen shapes."
"""Addition to the caption for figures with several m."""

UNSEEN_SHAPES = ("unseen shapes", "seen shapes")
"""Name of the accuracy on the test shapes, and its name if no shapes are held out."""


class RelationalStudy(LearningStudy):
    """Networks on tasks with m shapes held out, compared by their accuracy on unseen shapes.

    A trial is a network on a task at an m. `make_grid` makes the `networks` of a preset; `seeds` of a preset lists
    networks that run with fewer seeds. The table has the rows of the grid, then those of the contrasts. Learning
    curves show unseen shapes. The final network is tested, even if an earlier one was better.
    """

    base = BASE
    score = "accuracy"
    score_in_words = "accuracy"
    tasks: Mapping[str, Mapping[str, Any]] = TASKS
    """Every task of the study, with its published training settings."""
    contrasts: Sequence[Contrast] = ()
    """Claims about networks against others; `claims` contains them too."""
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

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        seeds = tuple(seeds)
        seeds_of = settings.get("seeds", {})
        return [
            with_other_shapes(trial)
            for trial in super().trials(settings, seeds)
            if trial.seed in seeds_of.get(trial.subject.network, seeds)
        ]

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
        """Whether a trial has the published recipe."""
        published = changed(self.base, self.tasks[trial.subject.task])
        return all(trial.settings[name] == getattr(published, name) for name in self.recipe)

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for trials in by_name(results).values():
            for key, quantity in self.tested_quantities(trials).items():
                values = [run.result[key] for run in finite(trials)]
                measured = [mean(values)] if values else []  # the mean over seeds is compared, as published
                ours = over_seeds(values) + (", one seed" if len(values) == 1 else "")
                row = self.row(trials, quantity, measured, ours=ours, remark=self.remark(trials, key))
                rows.append(self.with_explanation(row, finite(trials), values, key))
        return [*rows, *self.contrast_rows(results)]

    def with_explanation(self, row: Row, trials: Sequence[Finished], values: Sequence[float], key: str) -> Row:
        """Return the row with the reason why it differs, if the runs show one."""
        claim = row.claim
        if claim is None or row.verdict not in (Verdict.DIFFERS, Verdict.WORSE) or row.judgement.reason:
            return row
        assert claim.tolerance is not None
        published = claim.mean if isinstance(claim, Reported) and claim.mean is not None else claim.tolerance[0]
        has_curves = key == next(iter(self.unseen))  # learning curves are those of the first test
        return with_reason(row, explain_difference(trials, values, claim.tolerance, published, has_curves))

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
        lost = max(drift(run) for run in runs)
        parts += [f"up to {100 * lost:.1f} points lost after the best evaluation"] if lost >= DRIFT else []
        return "; ".join([*parts, super().remark(trials), f"{mean(run.result['seconds'] for run in runs):,.0f} s"])

    def contrast_rows(self, results: Sequence[Finished]) -> list[Row]:
        """Return a row for each contrast whose networks, or some of whose pairs, were run."""
        rows = []
        for contrast in self.contrasts:
            if (measured := self.measure_contrast(results, contrast)) is None:
                continue
            ours = f"{100 * measured.gain:+.1f} points: {percent(measured.better)} against {percent(measured.worse)}"
            if len(measured.gains) > 1:
                ours += f" ({', '.join(f'{network} {100 * gain:+.1f}' for network, gain in measured.gains.items())})"
            seeds = Counter(run.trial.subject for run in measured.runs)
            missing = [subject.network for subject in (*contrast.better, *contrast.worse) if subject not in seeds]
            ours += f"; without {', '.join(missing)}" if missing else ""
            single = dict.fromkeys(subject.network for subject, number in seeds.items() if number == 1)
            ours += f"; one seed of {' and '.join(single)}" if single else ""
            claim, gains = contrast.claim, list(measured.gains.values())
            row = self.compare(measured.runs, claim, gains, ours)
            rows.append(self.judge_contrast(row, contrast, measured))
        return rows

    def judge_contrast(self, row: Row, contrast: Contrast, measured: ContrastResult) -> Row:
        """Return the row with the reason why the claim fails, if the runs show one.

        The row is not compared if the contrast decides nothing: neither side has learned the task, or the second side
        leaves no room for a better one.
        """
        claim = contrast.claim
        if not row.verdict.compared or claim.tolerance is None:
            return row
        low, chance = claim.tolerance[0], chance_accuracy(measured.runs)
        if low < 0 and max(measured.better, measured.worse) < chance + LEARNED:
            reason = f"neither is much above chance, {percent(chance)}"
            return claim.not_compared(row.quantity, row.ours, "", reason)
        if measured.worse > 1 - low and NO_WORSE[0] <= measured.gain < low:
            return claim.not_compared(row.quantity, row.ours, "", "the second leaves no room to be better")
        if row.verdict is Verdict.DIFFERS and not row.judgement.reason:
            first, second = (
                [run for run in measured.runs if run.trial.subject in side]
                for side in (contrast.better, contrast.worse)
            )
            return with_reason(row, explain_contrast(first, second, next(iter(self.unseen)), measured.gain, low))
        if row.verdict is Verdict.IN_PART:
            others = [network for network, gain in measured.gains.items() if gain < low]
            return with_reason(row, f"not so for {' and '.join(others)}")
        return row

    def measure_contrast(self, results: Sequence[Finished], contrast: Contrast) -> ContrastResult | None:
        """Return the measured accuracies of both sides of a contrast; None if networks are missing."""
        key, runs = next(iter(self.unseen)), dict[Subject, list[Finished]]()
        for run in finite(results):
            runs.setdefault(run.trial.subject, []).append(run)
        if (sides := contrast.available(runs)) is None:
            return None
        means = [{subject: mean(run.result[key] for run in runs[subject]) for subject in side} for side in sides]
        better, worse = (mean(side.values()) for side in means)
        gains = {"": better - worse}
        if contrast.paired:
            pairs = zip(*(side.items() for side in means), strict=True)
            gains = {subject.network: first - second for (subject, first), (_, second) in pairs}
        return ContrastResult(
            better, worse, [run for side in sides for subject in side for run in runs[subject]], gains
        )

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
                panel = panels.setdefault((subject.task, key), Panel(title, chance_accuracy([run])))
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
