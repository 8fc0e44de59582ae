"""What the studies of relational networks share (Kerg, chapters 5 and 7, appendix C)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from mnemoscope.config.run_config import ENDLESS_EVALUATION, RunConfig, changed
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import Claim, Row, Subject, Verdict, about, with_reason
from mnemoscope.replication.learning import LearningStudy, by_name, finite
from mnemoscope.replication.study import Finished, Trial
from mnemoscope.studies.kerg2022.relational_figure import Panel, accuracies
from mnemoscope.studies.kerg2022.relational_reasons import LEARNED, chance_of, drift, percent, why_not, why_not_better
from mnemoscope.tasks import Split, Task
from mnemoscope.training import evaluate, load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROTOTYPE = Source("mnemoscope", "an earlier prototype of these networks, not published")
AND_PROTOTYPE = "and an earlier prototype of these networks, not published"
"""Behind the place in a source, where a prototype gave the number."""
DRIFT = 0.005
"""Accuracy on unseen shapes that was lost again while learning, from which on a row tells of it."""

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
"""Kerg, C.1 Table 1, and the released code: Adam without a schedule, 5,000 batches, and the last network is tested."""
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
"""Tasks by their published names, with the problems of a batch where they are not 96."""
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
"""Held out of 100 shapes, at most: as many are left as the problems need."""
HELD_OUT = (0, 50, 85)
"""Fewer that are held out; Webb et al. 2021 and Kerg, C.8."""
BASIC = ("same/diff", "RMTS", "dist3", "identity rules")
NEAR_PERFECT = (0.98, 1.0)
VERY_GOOD = (0.95, 1.0)
"""Accuracies that are called so here."""
FEW_STEPS: dict[str, Any] = {"steps": 4, "evaluate_every": 2, "evaluate_batches": 1, "batch_size": 12}
"""Settings that show in seconds that the machinery works."""


def network_on(network: str, task: str, m: int | None = None) -> Subject:
    """Return the subject of a trial: a network, a task, and how many shapes are held out (None: it has no shapes).

    >>> network_on("corelnet", "RMTS", 95).name
    'corelnet, RMTS, m 95'
    """
    return about(network, task) if m is None else about(network, task, m=m)


def crossed(
    networks: Mapping[str, Mapping[str, Any]],
    tasks: Mapping[str, Mapping[str, Any]],
    held_out: Mapping[str, Sequence[int]] | None = None,
) -> dict[Subject, dict[str, Any]]:
    """Every network on every task, at every m of the task, as the `networks` of a preset.

    Args:
        networks: by name, each with changes of a run (`cell`, `cell_options`, ...).
        tasks: likewise (`task`, `task_options`, `batch_size`, ...); these go first.
        held_out: numbers m of each task; None where tasks have no shapes to hold out.

    >>> grid = crossed({"esbn": {"cell": "esbn"}}, {"RMTS": {"task": "rmts"}}, {"RMTS": (50,)})
    >>> {subject.name: changes for subject, changes in grid.items()}
    {'esbn, RMTS, m 50': {'task': 'rmts', 'cell': 'esbn', 'task_options': {'m': 50}, 'cell_options': {}}}

    """
    grid = {}
    for task, problem in tasks.items():
        for m in [None] if held_out is None else held_out[task]:
            for network, own in networks.items():
                options = {} if m is None else {"m": m}
                together = {
                    name: {**problem.get(name, {}), **own.get(name, {})} for name in ("task_options", "cell_options")
                }
                together["task_options"] |= options
                grid[network_on(network, task, m)] = {**problem, **own, **together}
    return grid


def at_extreme(tasks: Iterable[str]) -> dict[str, tuple[int]]:
    """The largest m of each task, as `crossed` wants it."""
    return {task: (EXTREME[task],) for task in tasks}


def named(*networks: str) -> dict[str, dict[str, Any]]:
    """Networks of the registry, with their published options, as `crossed` wants them."""
    return {network: {"cell": network} for network in networks}


@dataclass(frozen=True)
class Reported(Claim):
    """A published accuracy with its mean, so that a figure can show it."""

    mean: float | None = None


def reported(subject: Subject, quantity: str, percent: float, deviation: float, source: Source) -> Reported:
    """Return the claim for a mean and its deviation over seeds, in percent; values within one deviation match.

    >>> reported(network_on("corelnet", "same"), "hexominoes", 94.7, 5.4, Source("kerg2022thesis", "Table 1")).value
    '94.7% ± 5.4'
    """
    tolerance = (percent - deviation) / 100, min(1.0, (percent + deviation) / 100)
    value = f"{percent}% ± {deviation}"
    return Reported(subject, quantity, value, source, tolerance, better="higher", mean=percent / 100)


DRIFTS = "its encoder brings unseen shapes together; one that stays random misses nothing (relational-cognitive)"
"""Why CoRelNet misses identity rules."""
NO_NUMBERS = "a figure without numbers"
"""Why what was published cannot be compared."""
SIMPLE = "a simple decoder outperforms more complex architectures"
"""Said of CoRelNet, against ESBN and CoRelNet-T."""
BETTER = (0.01, 1.0)
"""Differences that are called better: one point or more."""
NO_WORSE = (-0.02, 1.0)
"""Differences that are called no worse: two points down, at most."""


@dataclass(frozen=True)
class Contrast:
    """The claim that some networks are better than others, or no worse, tested by the difference of accuracies."""

    claim: Claim
    """Its tolerance is a range of differences between mean accuracies; 1 is 100 points."""
    better: tuple[Subject, ...]
    worse: tuple[Subject, ...]
    paired: bool = False
    """Whether each network is compared with one of the others, so that a pair may be missing."""

    def among(self, there: Collection[Subject]) -> tuple[tuple[Subject, ...], tuple[Subject, ...]] | None:
        """Return both sides if all of their networks are there, or the pairs that are; None if none is."""
        if not self.paired:
            return (self.better, self.worse) if {*self.better, *self.worse} <= {*there} else None
        pairs = [pair for pair in zip(self.better, self.worse, strict=True) if {*pair} <= {*there}]
        return (tuple(first for first, _ in pairs), tuple(second for _, second in pairs)) if pairs else None


class Sides(NamedTuple):
    """Mean accuracies of the better and the worse of a claim, their trials, and what is compared."""

    better: float
    worse: float
    own: list[Finished]
    gains: dict[str, float]
    """Of pairs, the difference of each by the name of its first; else the one difference."""

    @property
    def gain(self) -> float:
        """The difference of the means."""
        return self.better - self.worse


def contrast(
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
    """Return what a statement says about networks against others on a task.

    >>> source = Source("kerg2022thesis", "Fig 5")
    >>> contrast("outperforms", source, "RMTS3", 94, ["corelnet"], ["esbn"]).claim.name
    'RMTS3, m 94: corelnet against esbn'
    """
    quantity = f"{' + '.join(better)} against {' + '.join(worse)}"
    first, second = (tuple(network_on(network, task, m) for network in side) for side in (better, worse))
    claim = Claim(network_on("", task, m), quantity, statement, source, tolerance, reason=reason)
    return Contrast(claim, first, second, paired)


CAPTION = "Accuracy on unseen shapes, a dot for each seed; diamonds are means on what was trained, dashed lines chance."
OVER_M = " Where several m were held out, unseen are lines with dots, seen are dashes."
"""Of figures."""


UNSEEN_SHAPES = ("unseen shapes", "seen shapes")
"""Name of the accuracy on the test shapes, and its name where no shapes are held out."""


class RelationalStudy(LearningStudy):
    """Networks on tasks with m shapes held out, compared by how often they are right on shapes never seen.

    A trial is a network on a task at an m; `crossed` makes the `networks` of a preset, whose `seeds` may name networks
    with the few seeds that they alone have. Rows stand in the order of the grid, then the claims. Curves are of unseen
    shapes; the last network is tested, whatever it was before.
    """

    base = BASE
    score = "accuracy"
    score_in_words = "accuracy"
    tasks: Mapping[str, Mapping[str, Any]] = TASKS
    """Every task of the study, with what is published of its training."""
    contrasts: Sequence[Contrast] = ()
    """Claims about networks against others; `claims` has them too."""
    unseen: Mapping[str, tuple[str, str]] = {"test": UNSEEN_SHAPES}
    """What a network is tested with that it has not seen: keys of `tests`, each with the name of the quantity, and its
    name where no shapes are held out."""
    watched: Mapping[str, Sequence[str]] = {}
    """Networks of which the figure shows how they learn, by task."""
    evaluations = 8
    """A network is tested with as many batches as this many evaluations have; with 32 of 96 problems, 90% right are
    known to 0.5 points."""
    recipe: Sequence[str] = ("optimiser", "learning_rate", "schedule", "weight_decay", "clip", "steps", "batch_size")
    """Settings in which a trial must be as published to be compared."""

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        seeds = tuple(seeds)
        own = settings.get("seeds", {})
        return [
            with_other_shapes(trial)
            for trial in super().trials(settings, seeds)
            if trial.seed in own.get(trial.subject.network, seeds)
        ]

    def tests(self, task: Task) -> Mapping[str, tuple[Task, Split]]:
        """What a trained network is tested with: "validation", what it was trained with, and keys of `unseen`."""
        return {"test": (task, "test"), "validation": (task, "validation")}

    def measure(self, run: Path) -> dict[str, Any]:
        """Accuracy in each of the tests."""
        model, task, config = load_model(run)
        model = model.to(config.device)
        number = self.evaluations * (config.evaluate_batches or ENDLESS_EVALUATION)
        found = {}
        for name, (tested, split) in self.tests(task).items():
            batches = (tested.batch(config.batch_size, config.seed, each, split) for each in range(number))
            found[name] = evaluate(model, tested, (batch.to(config.device) for batch in batches))["accuracy"]
        return {name: round(accuracy, 5) for name, accuracy in found.items()}

    def as_published(self, trial: Trial) -> bool:
        """Whether a trial has the published recipe."""
        published = changed(self.base, self.tasks[trial.subject.task])
        return all(trial.settings[name] == getattr(published, name) for name in self.recipe)

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for trials in by_name(results).values():
            for key, words in self.tested(trials).items():
                found = [one.result[key] for one in finite(trials)]
                measured = [mean(found)] if found else []  # seeds together, as published
                ours = over_seeds(found) + (", one seed" if len(found) == 1 else "")
                row = self.row(trials, words, measured, ours=ours, remark=self.remark(trials, key))
                rows.append(self.explained(row, finite(trials), found, key))
        return [*rows, *self.claimed(results)]

    def explained(self, row: Row, trials: Sequence[Finished], found: Sequence[float], key: str) -> Row:
        """With why it differs, where the runs tell."""
        claim = row.claim
        if claim is None or row.verdict not in (Verdict.DIFFERS, Verdict.WORSE) or row.judgement.reason:
            return row
        assert claim.tolerance is not None
        published = claim.mean if isinstance(claim, Reported) and claim.mean is not None else claim.tolerance[0]
        watched = key == next(iter(self.unseen))  # of the first, curves are kept
        return with_reason(row, why_not(trials, found, claim.tolerance, published, watched))

    def tested(self, trials: Sequence[Finished]) -> dict[str, str]:
        """What of `unseen` a network was tested with: not every task has all of it."""
        there = {key: names for key, names in self.unseen.items() if all(key in one.result for one in finite(trials))}
        return {key: names[trials[0].trial.subject["m"] == 0] for key, names in there.items()}

    def remark(self, trials: Sequence[Finished], key: str = "") -> str:
        """What was seen in training, how much of the unseen was lost again, and how long it took."""
        whole = finite(trials)
        if not whole:
            return super().remark(trials)
        said = [f"seen {percent(mean(one.result['validation'] for one in whole))}"]
        lost = max(drift(one) for one in whole)
        said += [f"up to {100 * lost:.1f} points lost after the best evaluation"] if lost >= DRIFT else []
        return "; ".join([*said, super().remark(trials), f"{mean(one.result['seconds'] for one in whole):,.0f} s"])

    def claimed(self, results: Sequence[Finished]) -> list[Row]:
        """A row for each claim of which all networks are there, or some of its pairs."""
        rows = []
        for one in self.contrasts:
            if (found := self.sides(results, one)) is None:
                continue
            ours = f"{100 * found.gain:+.1f} points: {percent(found.better)} against {percent(found.worse)}"
            if len(found.gains) > 1:
                ours += f" ({', '.join(f'{network} {100 * gain:+.1f}' for network, gain in found.gains.items())})"
            there = Counter(each.trial.subject for each in found.own)
            missing = [each.network for each in (*one.better, *one.worse) if each not in there]
            ours += f"; without {', '.join(missing)}" if missing else ""
            single = dict.fromkeys(each.network for each, seeds in there.items() if seeds == 1)
            ours += f"; one seed of {' and '.join(single)}" if single else ""
            row = self.compare(found.own, one.claim, one.claim.name, list(found.gains.values()), ours)
            rows.append(self.weighed(row, one, found))
        return rows

    def weighed(self, row: Row, one: Contrast, found: Sides) -> Row:
        """With why the claim does not hold, where the runs tell; not compared where they could not tell."""
        if not row.verdict.compared or one.claim.tolerance is None:
            return row
        low, chance = one.claim.tolerance[0], chance_of(found.own)
        if low < 0 and max(found.better, found.worse) < chance + LEARNED:
            reason = f"neither is much above chance, {percent(chance)}"
            return one.claim.not_compared(row.quantity, row.ours, "", reason)
        if found.worse > 1 - low and NO_WORSE[0] <= found.gain < low:
            return one.claim.not_compared(row.quantity, row.ours, "", "the second leaves no room to be better")
        if row.verdict is Verdict.DIFFERS and not row.judgement.reason:
            first, second = (
                [each for each in found.own if each.trial.subject in side] for side in (one.better, one.worse)
            )
            return with_reason(row, why_not_better(first, second, next(iter(self.unseen)), found.gain, low))
        if row.verdict is Verdict.IN_PART:
            others = [network for network, gain in found.gains.items() if gain < low]
            return with_reason(row, f"not so for {' and '.join(others)}")
        return row

    def sides(self, results: Sequence[Finished], one: Contrast) -> Sides | None:
        """What was measured of both sides of a claim; None where networks are missing."""
        key, found = next(iter(self.unseen)), dict[Subject, list[Finished]]()
        for each in finite(results):
            found.setdefault(each.trial.subject, []).append(each)
        if (sides := one.among(found)) is None:
            return None
        of_each = [{where: mean(each.result[key] for each in found[where]) for where in side} for side in sides]
        better, worse = (mean(side.values()) for side in of_each)
        gains = {"": better - worse}
        if one.paired:
            pairs = zip(*(side.items() for side in of_each), strict=True)
            gains = {first.network: more - less for (first, more), (_, less) in pairs}
        return Sides(better, worse, [each for side in sides for where in side for each in found[where]], gains)

    def figure(self, results: Sequence[Finished]) -> Figure:
        """Accuracy of each network on each task: a dot for each seed, over m where there are several."""
        means = {(one.subject, one.quantity): one.mean for one in self.claims if isinstance(one, Reported)}
        panels: dict[tuple[str, str], Panel] = {}
        for one in finite(results):
            subject = one.trial.subject
            m = subject["m"]
            held_out = None if m is None else int(m)
            for key, words in self.tested([one]).items():
                title = subject.task if len(self.unseen) == 1 else f"{subject.task}, {words}"
                panel = panels.setdefault((subject.task, key), Panel(title, chance_of([one])))
                panel.add(subject.network, held_out, one.result[key], one.result["validation"])
                published = means.get((subject, words))
                if published is not None:
                    panel.told[subject.network, held_out] = published
        curves: dict[str, dict[str, list[Mapping[str, Sequence[float]]]]] = {}
        for one in finite(results):
            subject = one.trial.subject
            if subject.network in self.watched.get(subject.task, ()):
                own = curves.setdefault(subject.task, {}).setdefault(subject.network, [])
                own.append(one.result["curve"])
        return accuracies(list(panels.values()), curves)


def with_other_shapes(trial: Trial) -> Trial:
    """The trial with other shapes held out for each seed, as published, if its task holds out shapes."""
    options = trial.settings["task_options"]
    if "m" not in options:
        return trial
    return replace(trial, settings={**trial.settings, "task_options": {**options, "shape_seed": trial.seed}})


def over_seeds(values: Sequence[float]) -> str:
    """Mean, standard deviation, lowest and highest.

    >>> over_seeds([0.96, 1.0]), over_seeds([0.5]), over_seeds([])
    ('98.0% ± 2.8 (96.0 to 100.0)', '50.0%', 'none')
    """
    if not values:
        return "none"
    if len(values) == 1:
        return percent(values[0])
    ends = f"{100 * min(values):.1f} to {100 * max(values):.1f}"
    return f"{percent(mean(values))} ± {100 * stdev(values):.1f} ({ends})"
