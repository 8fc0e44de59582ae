"""Common base of the studies of Turing machines and trained matrix networks (Renanse et al. 2021, section 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import inf, sqrt
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from numpy import format_float_positional

from mnemoscope.config.run_config import RunConfig
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, style_page_axes
from mnemoscope.memory.tape import TuringMachine
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_least, exactly
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.computed_study import legend_above
from mnemoscope.replication.differences import measure_difference
from mnemoscope.replication.learning_study import by_name, colours, draw_range, finite, first_step
from mnemoscope.replication.solving_study import CURRICULUM_OPTIONS, SolvingStudy, ended
from mnemoscope.replication.study import Finished, Preset, Study, Trial, listed
from mnemoscope.replication.verdicts import Obstacle
from mnemoscope.studies.renanse2021.tape_use import NEIGHBOURS, READ_WHERE_WRITTEN, measure_tape_use
from mnemoscope.tasks import Task
from mnemoscope.tasks.associative_recall import Recall
from mnemoscope.tasks.bit_copy import Copying
from mnemoscope.tasks.bit_task import BitTask
from mnemoscope.training import build_task, evaluate_tasks, load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = partial(Source, "renanse2021")
"""Source in the paper, given its place there."""
RUNS = 5
"""Runs behind each curve of Figures 5 and 7."""
SEQUENCES = 32
"""Test sequences of each length."""
FEW = 1.0
"""Most wrong bits per vector or matrix for a task to count as nearly learned."""
TO_SOLVE = "training sequences up to the first evaluation with no wrong bit"
DIVERGED = "seeds that did not stay finite"
RISES = "rise of wrong bits between points of the curve, root mean square"
"""How much a learning curve fluctuates. Falls count as 0, so that a network that learns does not appear to. A network
that has learned its task, and makes no errors any more, does not fluctuate."""
COMPARED = about("matntm against matrix-rnn")
MOST = 0.9
"""Least share of items or answers for a machine to use its tape as in a figure."""
TIMES_AS_LONG = (1.5, 2, 2.4, 3, 4, 6)
"""Test lengths beyond training, as multiples of the longest training length: 30, 40, 48, 60, 80 and 120 after 20. The
published tape of 120 slots is full at the last one."""

BASE = RunConfig(
    "tape",
    task="matrix-copy",
    cell="matntm",
    hidden_size=15,
    optimiser="rmsprop",
    learning_rate=1e-4,
    momentum=0.9,
    clip=10.0,
    steps=53_000,
    batch_size=16,
    evaluate_every=100,
    evaluate_batches=20,
    checkpoint_every=500,
    threads=1,
)
"""Recipe of Table 1, Fig 5 and the released code, with one difference: the released code clips every component of a
gradient to +-10; here the norm of the gradient is clipped at 10."""
MATNTM: dict[str, Any] = {"cell": "matntm", "hidden_size": 15}
MATRIX_RNN: dict[str, Any] = {"cell": "matrix-stack", "hidden_size": 225}
"""Networks of Table 1 for copying: three layers of 15 x 15 with 120 slots of 6 x 6, and two of 15 x 15 with a recurrent
output."""
NTM: dict[str, Any] = {"task": "bit-copy", "cell": "ntm", "hidden_size": 100}
"""Graves et al. 2014, Table 1: a controller of 100 units, 128 slots of 20 numbers."""
MIXED: dict[str, Any] = {"task_options": {"mixed": True}}
"""Mixed lengths within a batch. With one length per batch, as published, successive batches pose different problems and
some seeds learn nothing (NTM at the rates 0.0003, 0.0005 and 0.001: seed 0 of three each time)."""
LEARNING_NTM: dict[str, Any] = {**NTM, "learning_rate": 3e-4, **MIXED}
"""RMSprop with momentum at three times its usual rate. A curriculum with short sequences first did not help in a short
trial (after 960 iterations it had reached 7 vectors), perhaps because an LSTM holds a few vectors without the tape."""
SMALL: dict[str, dict[str, Any]] = {
    "matntm": {"cell": "matntm", "hidden_size": 4, "cell_options": {"slots": 6, "slot_rows": 3, "slot_columns": 3}},
    "matrix-rnn": {"cell": "matrix-stack", "hidden_size": 16},
}
SMALL_NTM: dict[str, Any] = {**NTM, "hidden_size": 8, "cell_options": {"slots": 6, "slot_size": 4}}
FEW_STEPS: dict[str, Any] = {"steps": 6, "evaluate_every": 3, "evaluate_batches": 1, "batch_size": 4}
"""Small networks and settings of a smoke test that takes seconds."""
LIMIT: dict[str, Any] = {"gradient_limit": 10.0}
"""Clip each component of the gradient to +-10 at every step of backpropagation, as in Graves et al. 2014, section 4.6.
Without it, gradients of a MatNTM at ten times the published rate overflow float32 before their norm can be clipped."""
OURS: dict[str, Any] = {"curriculum_score": 0.98, "target_loss": 1e-3, "target_score": 1.0}
FASTER: dict[str, Any] = {"learning_rate": 5e-4}
STAGES: dict[str, Any] = {**FASTER, "task_options": {"curriculum": "2 4 7 12", "mixed": True}}
"""Recipe that learns in hundreds of iterations instead of tens of thousands: RMSprop as published, at five times the
rate, with a curriculum from short to long sequences of mixed lengths. With one length per batch, a batch of short
sequences is soon right, and the next stage begins before this one is learned (two of three seeds were stuck for
hundreds of iterations)."""


SEEDS = (0, 1, 2, 3, 4)


def smoke(what: str, networks: Mapping[str, Mapping[str, Any]], **task_options: Any) -> Preset:
    """Return the preset `smoke`, which takes seconds."""
    changes = {**FEW_STEPS, "task_options": task_options}
    return Preset(f"Smoke test: a few iterations of {what}.", {"networks": networks, "changes": changes})


def at_rates(
    networks: Mapping[str, Mapping[str, Any]], *rates: float, limited: bool = False
) -> dict[Subject, dict[str, Any]]:
    """Return every network at every learning rate; `limited` says that its gradients are clipped at every step."""
    condition, remark = ({"gradient": "limited"}, ", limited") if limited else ({}, "")
    return {
        about(name, **condition, rate=rate, label=at_rate(f"{name}{remark}", rate)): {
            **network,
            "learning_rate": rate,
        }
        for name, network in networks.items()
        for rate in rates
    }


def at_rate(name: str, rate: float) -> str:
    """Return the name of a network that learns at this rate."""
    return f"{name}, rate {format_float_positional(rate)}"


class TapeStudy(SolvingStudy):
    """Networks that learn to reproduce random bits, compared by the wrong bits per vector or matrix.

    Each is tested at single lengths, those of training and longer ones, and compared with two uninformed answers: all
    zeros and all ones.
    """

    score = "wrong bits"
    score_in_words = "wrong bits"
    landmarks = ((0.0, FEW), (0.0, 0.0))
    base = BASE
    published_base = BASE
    published_changes: Mapping[str, Mapping[str, Any]] = {}
    curves: Mapping[str, Mapping[int, float]] = {}
    """Published points of learning curves: wrong bits by network and iterations."""
    lengths: Mapping[str, Mapping[int, float]] = {}
    """Published points over length: wrong bits by network and length."""
    reported_lengths: Sequence[int] = ()
    """Test lengths with a row in the table, in addition to the longest length of training; the figure shows all."""
    length_formats = "length {}", "lengths {} to {}"
    """Formats for one length and for a range of lengths."""

    def tests(self, task: Task) -> dict[int, BitTask]:
        """Return the task at single lengths: all lengths of training, and longer ones."""
        assert isinstance(task, Copying)
        longer = [round(times * task.longest) for times in TIMES_AS_LONG]
        return {length: task.at(length) for length in (*range(task.shortest, task.longest + 1), *longer)}

    def measure(self, run: Path) -> dict[str, Any]:
        model, task, config = load_model(run, training_device=True)
        tests = self.tests(task)
        tested = evaluate_tasks(model, tests, sequences=SEQUENCES, seed=config.seed)
        measured: dict[str, Any] = {
            "tested": [[length, float(f"{scores['wrong bits']:.4g}")] for length, scores in tested.items()]
        }
        if isinstance(model.cell, TuringMachine):
            measured["tape use"] = measure_tape_use(model, tests[longest_length(task)], SEQUENCES, config.seed)
        return measured

    def solved(self, result: Mapping[str, Any]) -> bool:
        return result["wrong bits"] == 0

    def as_published(self, trial: Trial) -> bool:
        """Whether task, network and its size are those of Table 1; remarks list other differences of the training."""
        published, settings = self.published_recipe(trial), trial.settings
        options, published_options = (
            {name: value for name, value in every.items() if name not in CURRICULUM_OPTIONS}
            for every in (settings["task_options"], published.task_options)
        )
        names = ("task", "cell", "hidden_size", "cell_options")
        return options == published_options and all(settings[name] == getattr(published, name) for name in names)

    def remark(self, trials: Sequence[Finished]) -> str:
        return f"{super().remark(trials)}; {task_of(trials[0].trial).uninformed_summary()}"

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        return [*super().summarise(results), *self._fluctuation(by_name(results))]

    def _fluctuation(self, groups: Mapping[str, Sequence[Finished]]) -> list[Row]:
        """Return the row that compares the learning curves of both networks at the published rate, if both ran.

        Curves of shorter trainings than the published ones are shown, and not compared.
        """
        claim = self.find_claim(RISES, COMPARED)
        pair = [self._at_published_rate(groups, name) for name in ("matntm", "matrix-rnn")]
        if claim is None or not all(pair):
            return []
        curves = [[run.result["curve"] for run in finite(runs)] for runs in pair]
        rises = [[root_mean_square_rise(curve) for curve in each if len(curve["step"]) > 1] for each in curves]
        ours = " against ".join(", ".join(f"{value:.3g}" for value in values) or "none" for values in rises)
        remark = f"{ended(pair[0])} against {ended(pair[1])}"
        shortest = min(run.trial.settings["steps"] for runs in pair for run in runs)
        if shortest < self.base.steps:
            reason = f"{shortest:,} iterations, where the figure has {self.base.steps:,}"
            return [claim.not_compared(claim.name, ours, remark, Obstacle.SHORTER_TRAINING, reason, rises[0])]
        if not all(rises):
            return [claim.not_compared(claim.name, ours, remark, Obstacle.NOT_MEASURED, measured=rises[0])]
        return [measure_difference(rises[:1], rises[1:]).compare(claim, ours, remark)]

    def _at_published_rate(self, groups: Mapping[str, Sequence[Finished]], name: str) -> Sequence[Finished]:
        """Return the trainings of a network as published, or else shorter ones at the published rate."""
        published = {"learning_rate": self.base.learning_rate, "steps": self.base.steps}
        runs = groups.get(name, ())
        if runs and all(run.trial.settings[each] == value for run in runs for each, value in published.items()):
            return runs
        return groups.get(at_rate(name, self.base.learning_rate), ())

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        stable = finite(trials)
        diverged = len(trials) - len(stable)
        rows = [
            self.parameters(trials),
            self._divergence(trials, diverged),
            *(self.first_evaluation(trials, most) for most in (FEW, 0.0)),
        ]
        if stable:
            task, tested = task_of(trials[0].trial), [by_length(run) for run in stable]
            within = [length for length in self.tests(task) if length <= longest_length(task)]
            clean = sum(all(wrong[length] == 0 for length in within) for wrong in tested)
            one_length, several_lengths = self.length_formats
            quantity = f"seeds without a wrong bit at {several_lengths.format(within[0], within[-1])}"
            rows.append(self.row(trials, quantity, [clean], ours=f"{clean} of {len(trials)}", diverged=0))
            for length in (within[-1], *self.reported_lengths):
                if length in tested[0]:
                    values = [wrong[length] for wrong in tested]
                    rows.append(self.row(trials, f"wrong bits at {one_length.format(length)}", values))
            rows += self.tape_use(trials, f"at {one_length.format(within[-1])}")
        return rows

    def tape_use(self, trials: Sequence[Finished], lengths: str) -> list[Row]:
        """Return the rows about the tape of the machines that have solved their task."""
        solving = [run for run in finite(trials) if "tape use" in run.result and self.solved(run.result)]
        if not solving:
            return []
        used = [run.result["tape use"] for run in solving]
        remark = f"{len(used)} of {len(trials)} seeds, which solve the task; {lengths}, written with a delay of "
        remark += listed(use["delay"] for use in used)
        return [
            self.row(solving, quantity, [use[quantity] for use in used], remark=remark)
            for quantity in (READ_WHERE_WRITTEN, NEIGHBOURS)
        ]

    def _divergence(self, trials: Sequence[Finished], diverged: int) -> Row:
        """Return the row for the number of seeds that diverged; for a claim about it, they are no obstacle."""
        trial, ours = trials[0].trial, f"{diverged} of {len(trials)}"
        claim = self.find_claim(DIVERGED, trial.subject)
        if claim is None:
            return Row(f"{trial.name}: {DIVERGED}", "", ours)
        return Study.compare(self, trials, claim, [diverged], ours, quantity=f"{trial.name}: {DIVERGED}", diverged=0)

    def parameters(self, trials: Sequence[Finished]) -> Row:
        """Return the row for the number of parameters, compared for any recipe as training does not change it."""
        trial, number = trials[0].trial, trials[0].result["parameters"]
        claim = self.find_claim("parameters", trial.subject)
        if claim is None:
            return Row(f"{trial.name}: parameters", "", str(number))
        return replace(Study.compare(self, trials, claim, [number], str(number), diverged=0), recipe="")

    def first_evaluation(self, trials: Sequence[Finished], most: float) -> Row:
        """Return the row for the iterations up to the first evaluation with at most that many wrong bits."""
        steps = [first_step(run.result["curve"], "wrong bits", at_most=most) for run in trials]
        ours = ", ".join("never" if step is None else f"{step:,.0f}" for step in steps)
        measured = [inf if step is None else step for step in steps]
        remarks = [] if median(measured) == inf else [f"median {median(measured):,.0f}"]
        remarks += [] if most else [ended(trials)]
        quantity = f"iterations to the first evaluation with {f'at most {most:g}' if most else 'no'} wrong bit"
        return self.row(trials, quantity, measured, ours=ours, remark="; ".join(remarks), diverged=0)

    def figure(self, results: Sequence[Finished]) -> Figure:
        """Draw learning curves and wrong bits over length, with published points and the uninformed answers."""
        figure = new_figure(7.2, 4.0)
        learning, lengths = figure.subplots(1, 2)
        for colour, (name, trials) in zip(colours(), by_name(results).items(), strict=False):
            draw_curves(learning, [run.result["curve"] for run in trials], name, colour)
            draw_lengths(lengths, [by_length(run) for run in finite(trials)], colour)
            for axes, points in ((learning, self.curves.get(name, {})), (lengths, self.lengths.get(name, {}))):
                axes.plot(list(points), list(points.values()), "o", color=colour, fillstyle="none", markersize=9)
        for axes in (learning, lengths):
            draw_uninformed(axes, results)
            axes.set_ylim(bottom=-0.4)
            style_page_axes(axes)
        longest = max(longest_length(task_of(run.trial)) for run in results)
        lengths.axvline(longest, color=COLOUR["line"], linewidth=1)
        learning.set(xlabel="iterations", ylabel="wrong bits", xscale="log")
        learning.minorticks_off()
        learning.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        lengths.set(xlabel=self.length_formats[0].format("").strip())
        legend_above(figure, 3)
        return figure


def task_of(trial: Trial) -> BitTask:
    """Return the task of a trial."""
    task = build_task(RunConfig(**trial.settings))
    assert isinstance(task, BitTask)
    return task


def longest_length(task: Task) -> int:
    """Return the length of the longest sequence, or list, of training."""
    assert isinstance(task, Copying | Recall)
    return task.longest if isinstance(task, Copying) else task.most


def by_length(run: Finished) -> dict[int, float]:
    """Return the wrong bits of a trained network at each test length."""
    return {int(length): wrong for length, wrong in run.result["tested"]}


def sequences_to_solve(trials: Sequence[Finished]) -> list[float]:
    """Return the training sequences of each network up to its first evaluation with no wrong bit; infinite if none."""
    steps = [first_step(run.result["curve"], "wrong bits", at_most=0.0) for run in trials]
    sizes = [run.trial.settings["batch_size"] for run in trials]
    return [inf if step is None else step * size for step, size in zip(steps, sizes, strict=True)]


def draw_curves(axes: Any, curves: Sequence[Mapping[str, Sequence[float]]], name: str, colour: str) -> None:
    """Draw the median and the range over the seeds; a seed that stopped early keeps its last value."""
    curves = [curve for curve in curves if curve["step"]]  # without the seeds that diverged before an evaluation
    steps = sorted({step for curve in curves for step in curve["step"]})
    values = [[held(curve, step) for curve in curves] for step in steps]
    draw_range(axes, steps, values, color=colour, label=name)


def held(curve: Mapping[str, Sequence[float]], step: float) -> float:
    """Return the last value up to a step; before the first value, the first one."""
    before = [value for at, value in zip(curve["step"], curve["wrong bits"], strict=True) if at <= step]
    return before[-1] if before else curve["wrong bits"][0]


def root_mean_square_rise(curve: Mapping[str, Sequence[float]]) -> float:
    """Return the root mean square rise of the wrong bits from one point of a learning curve to the next.

    >>> root_mean_square_rise({"wrong bits": [10.0, 8.0, 11.0, 15.0, 15.0]})
    2.5
    """
    rises = [max(0.0, after - before) for before, after in pairwise(curve["wrong bits"])]
    return sqrt(sum(rise**2 for rise in rises) / len(rises))


def draw_lengths(axes: Any, tested: Sequence[Mapping[int, float]], colour: str) -> None:
    """Draw the median and the range over the seeds."""
    if not tested:
        return
    lengths = sorted(tested[0])
    values = [[wrong[length] for wrong in tested] for length in lengths]
    draw_range(axes, lengths, values, color=colour, marker=".")


def draw_uninformed(axes: Any, results: Sequence[Finished]) -> None:
    """Draw lines at the wrong bits of uninformed answers, for each kind of task."""
    tasks = {task.output_size: task for task in (task_of(run.trial) for run in results)}
    levels: dict[tuple[int, float], list[str]] = {}
    for bits, task in tasks.items():
        for name, wrong in task.uninformed_scores().items():
            levels.setdefault((bits, wrong), []).append(name)
    for (bits, wrong), names in levels.items():
        label = " or ".join(names) + (f", of {bits}" if len(tasks) > 1 else "")
        axes.axhline(wrong, color=COLOUR["muted"], linewidth=1, linestyle=(0, (4, 3)))
        above = {"xycoords": ("axes fraction", "data"), "xytext": (0, 2), "textcoords": "offset points"}
        axes.annotate(label, (1, wrong), **above, ha="right", color=COLOUR["muted"], fontsize=PAGE_FONT_SIZE)


def fluctuates_more(figure: str) -> Claim:
    """Return the claim that the curve of MatNTM fluctuates more than that of the Matrix RNN in a figure."""
    return Claim(
        COMPARED,
        RISES,
        "fluctuates more largely; drawn only",
        PAPER(f"section 7, about {figure}"),
        at_least(0.0, "larger beyond what other seeds may give"),
    )


def published_parameters(name: str, number: int) -> Claim:
    """Return the claim about a number of parameters in Table 1."""
    return Claim(about(name), "parameters", number, PAPER("Table 1"), exactly(number), by_construction=True)
