"""What the studies of Turing machines and matrix networks that learn share (Renanse et al. 2021, section 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from mnemoscope.config.run_config import RunConfig
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, style_page_axes
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.computing import legend_above
from mnemoscope.replication.learning import by_name, colours, finite, first_step
from mnemoscope.replication.solving import CURRICULUM_OPTIONS, SolvingStudy, ended
from mnemoscope.replication.study import Finished, Study, Trial
from mnemoscope.tasks import Task
from mnemoscope.tasks.associative_recall import Recall
from mnemoscope.tasks.bit_copy import Copying
from mnemoscope.tasks.bit_task import BitTask
from mnemoscope.training import build_task, evaluate_tasks, load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = partial(Source, "renanse2021")
"""A place in the paper."""
SEQUENCES = 32
"""Of each length at which a trained network is tested."""
FEW = 1.0
"""Wrong bits of a vector or a matrix, below which a task counts as nearly learned."""
TIMES_AS_LONG = (1.5, 2, 2.4, 3, 4, 6)
"""Lengths never met in training, as multiples of the longest one that was: 30, 40, 48, 60, 80 and 120 after 20. A tape
of 120 slots, as published, is full then."""

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
"""Table 1, Fig 5 and the released code, but for one thing: there every number of a gradient is cut to +-10, here a
gradient is shortened to a norm of 10."""
MATNTM: dict[str, Any] = {"cell": "matntm", "hidden_size": 15}
MATRIX_RNN: dict[str, Any] = {"cell": "matrix-stack", "hidden_size": 225}
"""Table 1, for copying: three layers of 15 x 15 with 120 slots of 6 x 6, and two of 15 x 15 with a recurrent output."""
NTM: dict[str, Any] = {"task": "bit-copy", "cell": "ntm", "hidden_size": 100}
"""Graves et al. 2014, Table 1: a controller of 100 units, 128 slots of 20 numbers."""
MIXED: dict[str, Any] = {"task_options": {"mixed": True}}
"""Sequences of a batch have lengths of their own. Where they have one length, as published, every batch asks for
something else, and some seeds learn nothing (NTM at 0.0003, 0.0005 and 0.001: seed 0 of three each time)."""
LEARNING_NTM: dict[str, Any] = {**NTM, "learning_rate": 3e-4, **MIXED}
"""RMSprop with momentum at three times its usual rate. Short sequences first did not help in a short trial (after 960
iterations it was at up to 7 vectors), perhaps because an LSTM holds a few vectors by itself."""
SMALL: dict[str, dict[str, Any]] = {
    "matntm": {"cell": "matntm", "hidden_size": 4, "cell_options": {"slots": 6, "slot_rows": 3, "slot_columns": 3}},
    "matrix-rnn": {"cell": "matrix-stack", "hidden_size": 16},
    "ntm": {**NTM, "hidden_size": 8, "cell_options": {"slots": 6, "slot_size": 4}},
}
FEW_STEPS: dict[str, Any] = {"steps": 6, "evaluate_every": 3, "evaluate_batches": 1, "batch_size": 4}
"""Networks and settings that show in seconds that the machinery works."""
LIMIT: dict[str, Any] = {"gradient_limit": 10.0}
"""Each number of a gradient is cut to +-10 on its way from step to step, as in Graves et al. 2014, section 4.6. At ten
times the published rate, gradients of a MatNTM without that grow beyond the numbers of float32 before anything can
shorten them."""
OURS: dict[str, Any] = {"curriculum_score": 0.98, "target_loss": 1e-3, "target_score": 1.0}
FASTER: dict[str, Any] = {"learning_rate": 5e-4}
STAGES: dict[str, Any] = {**FASTER, "task_options": {"curriculum": "2 4 7 12", "mixed": True}}
"""What learns in hundreds of iterations in place of tens of thousands: RMSprop as published, at five times the rate, on
short sequences first, of mixed lengths: where a batch has one length, one of the shortest ones is soon right, and the
next stage begins before this one is learned (of three seeds, two were stuck for hundreds of iterations)."""


def at_rates(
    networks: Mapping[str, Mapping[str, Any]], rates: Mapping[str, float], limited: bool = False
) -> dict[Subject, dict[str, Any]]:
    """Return every network at every learning rate; `rates` have the text that trials are named by.

    `limited` names the trials of networks whose gradients are limited step by step.
    """
    condition = {"gradient": "limited"} if limited else {}
    names = {name: f"{name}, limited" if limited else name for name in networks}
    return {
        about(name, **condition, rate=rate, label=f"{names[name]}, {text}"): {**network, "learning_rate": rate}
        for name, network in networks.items()
        for text, rate in rates.items()
    }


class TapeStudy(SolvingStudy):
    """Networks that learn to give random bits back, compared by how many of a vector or a matrix are wrong.

    Each is tested at single lengths, of training and longer, and stands beside two that know nothing: all zeros, and
    all ones.
    """

    score = "wrong bits"
    score_in_words = "wrong bits"
    landmarks = ((0.0, FEW), (0.0, 0.0))
    base = BASE
    published_base = BASE
    published_changes: Mapping[str, Mapping[str, Any]] = {}
    curves: Mapping[str, Mapping[int, float]] = {}
    """Published points of learning curves: network, iterations, wrong bits."""
    lengths: Mapping[str, Mapping[int, float]] = {}
    """Published points over length: network, length, wrong bits."""
    told_lengths: Sequence[int] = ()
    """Lengths of which a row tells, beside the longest of training; the figure shows all."""
    in_words = "length {}", "lengths {} to {}"
    """One length, and several."""

    def tests(self, task: Task) -> dict[int, BitTask]:
        """The task at single lengths: all of training, and longer ones."""
        assert isinstance(task, Copying)
        longer = [round(times * task.longest) for times in TIMES_AS_LONG]
        return {length: task.at(length) for length in (*range(task.shortest, task.longest + 1), *longer)}

    def measure(self, run: Path) -> dict[str, Any]:
        model, task, config = load_model(run)
        tested = evaluate_tasks(model.to(config.device), self.tests(task), sequences=SEQUENCES, seed=config.seed)
        return {"tested": [[length, float(f"{scores['wrong bits']:.4g}")] for length, scores in tested.items()]}

    def solved(self, result: Mapping[str, Any]) -> bool:
        return result["wrong bits"] == 0

    def as_published(self, trial: Trial) -> bool:
        """Whether task, network and its size are those of Table 1; in what else the training differs is told beside."""
        published, settings = self.published_recipe(trial), trial.settings
        task, told = (
            {name: value for name, value in options.items() if name not in CURRICULUM_OPTIONS}
            for options in (settings["task_options"], published.task_options)
        )
        names = ("task", "cell", "hidden_size", "cell_options")
        return task == told and all(settings[name] == getattr(published, name) for name in names)

    def remark(self, trials: Sequence[Finished]) -> str:
        return f"{super().remark(trials)}; {task_of(trials[0].trial).uninformed_summary()}"

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        lost = len(trials) - len(finite(trials))
        rows = [
            self.parameters(trials),
            self.row(trials, "seeds that did not stay finite", [lost], ours=f"{lost} of {len(trials)}"),
            *(self.until(trials, most) for most in (FEW, 0.0)),
        ]
        if whole := finite(trials):
            task, tested = task_of(trials[0].trial), [by_length(one) for one in whole]
            within = [length for length in self.tests(task) if length <= longest_of(task)]
            clean = sum(all(each[length] == 0 for length in within) for each in tested)
            span = self.in_words[1].format(within[0], within[-1])
            told = f"{clean} of {len(trials)}"
            rows.append(self.row(trials, f"seeds without a wrong bit at {span}", [clean], ours=told))
            for length in (within[-1], *self.told_lengths):
                if length in tested[0]:
                    wrong = [each[length] for each in tested]
                    rows.append(self.row(trials, f"wrong bits at {self.in_words[0].format(length)}", wrong))
        return rows

    def parameters(self, trials: Sequence[Finished]) -> Row:
        """How many there are, which no training changes: it is compared whatever the recipe was."""
        trial, number = trials[0].trial, trials[0].result["parameters"]
        claim = self.find_claim("parameters", trial.subject)
        if claim is None:
            return Row(f"{trial.name}: parameters", "", str(number))
        return Study.compare(self, trials, claim, claim.name, [number], str(number))

    def until(self, trials: Sequence[Finished], most: float) -> Row:
        """How many iterations it took to have no more wrong bits than that in an evaluation, for the first time."""
        found = [first_step(one.result["curve"], "wrong bits", at_most=most) for one in trials]
        told = ", ".join("never" if step is None else f"{step:,.0f}" for step in found)
        measured = [inf if step is None else step for step in found]
        said = [] if median(measured) == inf else [f"median {median(measured):,.0f}"]
        said += [] if most else [ended(trials)]
        words = f"iterations to the first evaluation with {f'at most {most:g}' if most else 'no'} wrong bit"
        return self.row(trials, words, measured, ours=told, remark="; ".join(said))

    def figure(self, results: Sequence[Finished]) -> Figure:
        """Learning curves, and wrong bits over length, with what was published and the two that know nothing."""
        figure = new_figure(7.2, 4.0)
        learning, lengths = figure.subplots(1, 2)
        for colour, (name, trials) in zip(colours(), by_name(results).items(), strict=False):
            draw_curves(learning, [one.result["curve"] for one in trials], name, colour)
            draw_lengths(lengths, [by_length(one) for one in finite(trials)], colour)
            for axes, told in ((learning, self.curves.get(name, {})), (lengths, self.lengths.get(name, {}))):
                axes.plot(list(told), list(told.values()), "o", color=colour, fillstyle="none", markersize=9)
        for axes in (learning, lengths):
            draw_nothing(axes, results)
            axes.set_ylim(bottom=-0.4)
            style_page_axes(axes)
        longest = max(longest_of(task_of(one.trial)) for one in results)
        lengths.axvline(longest, color=COLOUR["line"], linewidth=1)
        learning.set(xlabel="iterations", ylabel="wrong bits", xscale="log")
        learning.minorticks_off()
        learning.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        lengths.set(xlabel=self.in_words[0].format("").strip())
        legend_above(figure, 3)
        return figure


def task_of(trial: Trial) -> BitTask:
    """The task of a trial."""
    task = build_task(RunConfig(**trial.settings))
    assert isinstance(task, BitTask)
    return task


def longest_of(task: Task) -> int:
    """The longest sequence, or list, of training."""
    assert isinstance(task, Copying | Recall)
    return task.longest if isinstance(task, Copying) else task.most


def by_length(one: Finished) -> dict[int, float]:
    """Wrong bits at each length at which a network was tested."""
    return {int(length): wrong for length, wrong in one.result["tested"]}


def draw_curves(axes: Any, curves: Sequence[Mapping[str, Sequence[float]]], name: str, colour: str) -> None:
    """The median over the seeds, each of which stays where it stopped, and between which values they lie."""
    curves = [curve for curve in curves if curve["step"]]  # one that was lost at once has nothing but a name
    steps = sorted({step for curve in curves for step in curve["step"]})
    values = [[_held(curve, step) for curve in curves] for step in steps]
    axes.plot(steps, [median(at) for at in values], color=colour, label=name)
    axes.fill_between(
        steps, [min(at) for at in values], [max(at) for at in values], color=colour, alpha=0.15, linewidth=0
    )


def _held(curve: Mapping[str, Sequence[float]], step: float) -> float:
    """The last value up to a step, or the first one before there was any."""
    before = [value for at, value in zip(curve["step"], curve["wrong bits"], strict=True) if at <= step]
    return before[-1] if before else curve["wrong bits"][0]


def draw_lengths(axes: Any, tested: Sequence[Mapping[int, float]], colour: str) -> None:
    """The median over the seeds, and between which values they lie."""
    if not tested:
        return
    lengths = sorted(tested[0])
    values = [[each[length] for each in tested] for length in lengths]
    axes.plot(lengths, [median(at) for at in values], color=colour, marker=".")
    axes.fill_between(
        lengths, [min(at) for at in values], [max(at) for at in values], color=colour, alpha=0.15, linewidth=0
    )


def draw_nothing(axes: Any, results: Sequence[Finished]) -> None:
    """Lines at what networks have wrong that know nothing, for each kind of task."""
    tasks = {task.output_size: task for task in (task_of(one.trial) for one in results)}
    levels: dict[tuple[int, float], list[str]] = {}
    for bits, task in tasks.items():
        for name, wrong in task.uninformed_scores().items():
            levels.setdefault((bits, wrong), []).append(name)
    for (bits, wrong), names in levels.items():
        words = " or ".join(names) + (f", of {bits}" if len(tasks) > 1 else "")
        axes.axhline(wrong, color=COLOUR["muted"], linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            words,
            (1, wrong),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="right",
            color=COLOUR["muted"],
            fontsize=PAGE_FONT_SIZE,
        )


def published_parameters(name: str, number: int) -> Claim:
    """Of Table 1."""
    return Claim(about(name), "parameters", number, PAPER("Table 1"), tolerance=(number, number))
