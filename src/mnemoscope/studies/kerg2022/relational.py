"""What the studies of relational networks share (Kerg, chapters 5 and 7, appendix C)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from mnemoscope.config.run_config import ENDLESS_EVALUATION, RunConfig, changed
from mnemoscope.replication.learning import LearningStudy, by_name, finite
from mnemoscope.replication.study import NOT_COMPARED, Finished, Published, Row, Trial
from mnemoscope.studies.kerg2022.relational_figure import Panel, accuracies
from mnemoscope.studies.kerg2022.relational_reasons import LEARNED, chance_of, drift, percent, why_not, why_not_better
from mnemoscope.tasks import Split, Task
from mnemoscope.training import evaluate, load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROTOTYPE = "an earlier prototype of these networks, not published"
DRIFT = 0.005
"""Accuracy on unseen shapes that was lost again while learning, from which on a row tells of it."""

BASE = RunConfig("relational", task="rmts", cell="corelnet", optimiser="adam", learning_rate=5e-4, steps=5000,
                 batch_size=96, evaluate_every=100, evaluate_batches=4, checkpoint_every=1000, threads=1)  # fmt: skip
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
EXTREME = {"same/diff": 98, "RMTS": 95, "dist3": 95, "identity rules": 95, "RMTS3": 94, "same/diff 6": 98,
           "identity rules 4": 94, "dist10": 89}  # fmt: skip
"""Held out of 100 shapes, at most: as many are left as the problems need."""
HELD_OUT = (0, 50, 85)
"""Fewer that are held out; Webb et al. 2021 and Kerg, C.8."""
BASIC = ("same/diff", "RMTS", "dist3", "identity rules")
NEAR_PERFECT = (0.98, 1.0)
VERY_GOOD = (0.95, 1.0)
"""Accuracies that are called so here."""
FEW_STEPS: dict[str, Any] = {"steps": 4, "evaluate_every": 2, "evaluate_batches": 1, "batch_size": 12}
"""Settings that show in seconds that the machinery works."""


class Condition(NamedTuple):
    """What a trial trains, on which task, with how many shapes held out (None: the task has no shapes)."""

    network: str
    task: str
    m: int | None = None

    @property
    def name(self) -> str:
        """Of the trial.

        >>> Condition("corelnet", "RMTS", 95).name
        'corelnet, RMTS, m 95'
        """
        return f"{self.network}, {self.task}" + ("" if self.m is None else f", m {self.m}")

    @classmethod
    def of(cls, trial: Trial) -> Condition:
        """From the name of a trial."""
        network, task, *m = trial.name.split(", ")
        return cls(network, task, int(m[0].removeprefix("m ")) if m else None)


def crossed(
    networks: Mapping[str, Mapping[str, Any]],
    tasks: Mapping[str, Mapping[str, Any]],
    held_out: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, dict[str, Any]]:
    """Every network on every task, at every m of the task, as the `networks` of a preset.

    Args:
        networks: by names without a comma, each with changes of a run (`cell`, `cell_options`, ...).
        tasks: likewise (`task`, `task_options`, `batch_size`, ...); these go first.
        held_out: numbers m of each task; None where tasks have no shapes to hold out.

    >>> crossed({"esbn": {"cell": "esbn"}}, {"RMTS": {"task": "rmts"}}, {"RMTS": (50,)})
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
                grid[Condition(network, task, m).name] = {**problem, **own, **together}
    return grid


def at_extreme(tasks: Iterable[str]) -> dict[str, tuple[int]]:
    """The largest m of each task, as `crossed` wants it."""
    return {task: (EXTREME[task],) for task in tasks}


def named(*networks: str) -> dict[str, dict[str, Any]]:
    """Networks of the registry, with their published options, as `crossed` wants them."""
    return {network: {"cell": network} for network in networks}


@dataclass(frozen=True)
class Reported(Published):
    """A published accuracy with its number, so that a figure can show it."""

    mean: float | None = None


def reported(quantity: str, percent: float, deviation: float, source: str) -> Reported:
    """A mean and its deviation over seeds, in percent; what is within one deviation agrees with it, more is better.

    >>> reported("corelnet, same: hexominoes", 94.7, 5.4, "Table 1").value
    '94.7% ± 5.4'
    """
    low, high = (percent - deviation) / 100, min(1.0, (percent + deviation) / 100)
    return Reported(quantity, f"{percent}% ± {deviation}", source, agreeing=(low, high), better="higher",
                    mean=percent / 100)  # fmt: skip


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
class Claim:
    """That one is better than another, or no worse, told in words: compared by the difference of mean accuracies."""

    published: Published
    """Its range is of the difference, 1 for 100 points."""
    better: tuple[Condition, ...]
    worse: tuple[Condition, ...]
    paired: bool = False
    """Whether each is compared with one of the others, so that a pair may be missing."""

    def among(self, there: Collection[Condition]) -> tuple[tuple[Condition, ...], tuple[Condition, ...]] | None:
        """Both sides, if they are there; of pairs those that are, if any."""
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


def claim(
    words: str, source: str, task: str, m: int | None, better: Sequence[str], worse: Sequence[str],
    agreeing: tuple[float, float] = BETTER, *, paired: bool = False, because: str = "",
) -> Claim:  # fmt: skip
    """What the words say, of networks against others on a task.

    >>> claim("outperforms", "Fig 5", "RMTS3", 94, ["corelnet"], ["esbn"]).published.quantity
    'RMTS3, m 94: corelnet against esbn'
    """
    quantity = f"{Condition('', task, m).name[2:]}: {' + '.join(better)} against {' + '.join(worse)}"
    first, second = (tuple(Condition(network, task, m) for network in side) for side in (better, worse))
    return Claim(Published(quantity, words, source, agreeing, because=because), first, second, paired)


CAPTION = "Accuracy on unseen shapes, a dot for each seed; diamonds are means on what was trained, dashed lines chance."
OVER_M = " Where several m were held out, unseen are lines with dots, seen are dashes."
"""Of figures."""


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
    claims: Sequence[Claim] = ()
    unseen: Mapping[str, str] = {"test": "unseen shapes"}
    """What a network is tested with that it has not seen: keys of `tests`, and words."""
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
            if trial.seed in own.get(Condition.of(trial).network, seeds)
        ]

    def tests(self, task: Task) -> Mapping[str, tuple[Task, Split]]:
        """What a trained network is tested with: "validation", what it was trained with, and keys of `unseen`."""
        return {"test": (task, "test"), "validation": (task, "validation")}

    def look(self, run: Path) -> dict[str, Any]:
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
        told = changed(self.base, self.tasks[Condition.of(trial).task])
        return all(trial.settings[name] == getattr(told, name) for name in self.recipe)

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for own in by_name(results).values():
            for key, words in self.tested(own).items():
                found = [one.result[key] for one in finite(own)]
                measured = [mean(found)] if found else []  # seeds together, as published
                ours = over_seeds(found) + (", one seed" if len(found) == 1 else "")
                row = self.row(own, words, measured, ours=ours, remark=self.remark(own, key))
                rows.append(self.explained(row, finite(own), found, key))
        return [*rows, *self.claimed(results)]

    def explained(self, row: Row, own: Sequence[Finished], found: Sequence[float], key: str) -> Row:
        """With why it differs, where the runs tell."""
        if row.verdict not in ("differs", "worse") or row.because:
            return row
        stated = self.stated(row.stated)
        assert stated.agreeing is not None
        told = stated.mean if isinstance(stated, Reported) and stated.mean is not None else stated.agreeing[0]
        watched = key == next(iter(self.unseen))  # of the first, curves are kept
        return replace(row, because=why_not(own, found, stated.agreeing, told, watched))

    def tested(self, own: Sequence[Finished]) -> dict[str, str]:
        """What of `unseen` a network was tested with: not every task has all of it."""
        there = {key: words for key, words in self.unseen.items() if all(key in one.result for one in finite(own))}
        return {key: words_at(words, Condition.of(own[0].trial).m) for key, words in there.items()}

    def remark(self, own: Sequence[Finished], key: str = "") -> str:
        """What was seen in training, how much of the unseen was lost again, and how long it took."""
        whole = finite(own)
        if not whole:
            return super().remark(own)
        said = [f"seen {percent(mean(one.result['validation'] for one in whole))}"]
        lost = max(drift(one) for one in whole)
        said += [f"up to {100 * lost:.1f} points lost after the best evaluation"] if lost >= DRIFT else []
        return "; ".join([*said, super().remark(own), f"{mean(one.result['seconds'] for one in whole):,.0f} s"])

    def claimed(self, results: Sequence[Finished]) -> list[Row]:
        """A row for each claim of which all networks are there, or some of its pairs."""
        rows = []
        for one in self.claims:
            if (found := self.sides(results, one)) is None:
                continue
            ours = f"{100 * found.gain:+.1f} points: {percent(found.better)} against {percent(found.worse)}"
            if len(found.gains) > 1:
                ours += f" ({', '.join(f'{network} {100 * gain:+.1f}' for network, gain in found.gains.items())})"
            there = Counter(Condition.of(each.trial) for each in found.own)
            missing = [each.network for each in (*one.better, *one.worse) if each not in there]
            ours += f"; without {', '.join(missing)}" if missing else ""
            single = dict.fromkeys(each.network for each, seeds in there.items() if seeds == 1)
            ours += f"; one seed of {' and '.join(single)}" if single else ""
            row = self.compared(found.own, one.published, one.published.quantity, list(found.gains.values()), ours, "")
            rows.append(self.weighed(row, one, found))
        return rows

    def weighed(self, row: Row, one: Claim, found: Sides) -> Row:
        """With why the claim does not hold, where the runs tell; not compared where they could not tell."""
        if row.verdict == NOT_COMPARED or one.published.agreeing is None:
            return row
        low, chance = one.published.agreeing[0], chance_of(found.own)
        if low < 0 and max(found.better, found.worse) < chance + LEARNED:
            because = f"neither is much above chance, {percent(chance)}"
            return one.published.not_beside(row.quantity, row.ours, "", because)
        if found.worse > 1 - low and NO_WORSE[0] <= found.gain < low:
            return one.published.not_beside(row.quantity, row.ours, "", "the second leaves no room to be better")
        if row.verdict == "differs" and not row.because:
            first, second = ([each for each in found.own if Condition.of(each.trial) in side]
                             for side in (one.better, one.worse))  # fmt: skip
            return replace(row, because=why_not_better(first, second, next(iter(self.unseen)), found.gain, low))
        if row.verdict.startswith("agrees in"):
            others = [network for network, gain in found.gains.items() if gain < low]
            return replace(row, because=f"not so for {' and '.join(others)}")
        return row

    def sides(self, results: Sequence[Finished], one: Claim) -> Sides | None:
        """What was measured of both sides of a claim; None where networks are missing."""
        key, found = next(iter(self.unseen)), dict[Condition, list[Finished]]()
        for each in finite(results):
            found.setdefault(Condition.of(each.trial), []).append(each)
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
        stated = {one.quantity: one.mean for one in self.published if isinstance(one, Reported)}
        panels: dict[tuple[str, str], Panel] = {}
        for one in finite(results):
            condition = Condition.of(one.trial)
            for key, words in self.tested([one]).items():
                title = condition.task if len(self.unseen) == 1 else f"{condition.task}, {words}"
                panel = panels.setdefault((condition.task, key), Panel(title, chance_of([one])))
                panel.add(condition.network, condition.m, one.result[key], one.result["validation"])
                told = stated.get(f"{one.trial.name}: {words}")
                if told is not None:
                    panel.told[condition.network, condition.m] = told
        curves: dict[str, dict[str, list[Mapping[str, Sequence[float]]]]] = {}
        for one in finite(results):
            condition = Condition.of(one.trial)
            if condition.network in self.watched.get(condition.task, ()):
                own = curves.setdefault(condition.task, {}).setdefault(condition.network, [])
                own.append(one.result["curve"])
        return accuracies(list(panels.values()), curves)


def with_other_shapes(trial: Trial) -> Trial:
    """The trial with other shapes held out for each seed, as published, if its task holds out shapes."""
    options = trial.settings["task_options"]
    if "m" not in options:
        return trial
    return replace(trial, settings={**trial.settings, "task_options": {**options, "shape_seed": trial.seed}})


def words_at(words: str, m: int | None) -> str:
    """Where no shapes are held out, those of the test are none that were unseen.

    >>> words_at("unseen shapes", 95), words_at("unseen shapes", 0), words_at("unseen shapes and relations", 0)
    ('unseen shapes', 'seen shapes', 'unseen relations')
    """
    if m != 0:
        return words
    return words.replace("unseen shapes and", "unseen").replace("unseen shapes", "seen shapes")


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
