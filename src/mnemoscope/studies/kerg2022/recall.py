"""Base class and recipes of the studies of recall with attention (Kerg, chapter 4 and B.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from mnemoscope.config.run_config import RunConfig
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import style_page_axes
from mnemoscope.replication.agreement import as_printed, at_most
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.computed_study import legend_above
from mnemoscope.replication.learning_study import colours, finite, first_step
from mnemoscope.replication.solving_study import SolvingStudy, changed_options, ended
from mnemoscope.replication.study import Finished, Trial
from mnemoscope.studies.kerg2022.notation import thesis
from mnemoscope.tasks import Copy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Table = Mapping[str, Mapping[int, int | str]]
"""Published percentages of recalled symbols, or why there are none, by network and delay."""
SOLVED = 0.99
"""Recall from which a task counts as solved."""
PUBLISHED: dict[str, dict[str, Any]] = {
    "rnn-orth": {"cell": "rnn-orth", "optimiser": "rmsprop"},
    "exprnn": {"cell": "exprnn", "optimiser": "rmsprop", "orthogonal_learning_rate": 2e-5},
    "memrnn": {"cell": "memrnn"},
    "relrnn": {"cell": "relrnn"},
    "lstm": {"cell": "lstm"},
    "h-detach": {"cell": "h-detach", "cell_options": {"p": 0.5}},
    "sab": {"cell": "sab"},
    "rellstm": {"cell": "rellstm"},
}
"""Recipes of Kerg, B.4 Table 3 (copy): learning rate 0.0002 for all. The table lacks MemRNN and RelLSTM, which are
trained as RelRNN, and h-detach and SAB, which are trained as LSTM. The rate of the orthogonal part is from expRNN's
published code."""
ON_CPU = ("exprnn", "rnn-orth")
"""Networks that learn by the published recipe in some thousand iterations of milliseconds, on a CPU."""
_ORTHOGONAL = {
    "optimiser": "rmsprop",
    "learning_rate": 1e-3,
    "orthogonal_learning_rate": 1e-4,
    "cell_options": {"nonlinearity": "modrelu", "scale": 0.5, "orthogonal": True},
}
_STAGED_LSTM = {"learning_rate": 3e-3, "curriculum_score": 0.9}
OURS: dict[str, dict[str, Any]] = {
    "rnn-orth": {"cell": "rnn-orth", "optimiser": "adam", "learning_rate": 2e-4},
    "exprnn": {"cell": "exprnn", "optimiser": "rmsprop", "learning_rate": 1e-3, "orthogonal_learning_rate": 1e-4},
    "memrnn": {"cell": "memrnn"} | _ORTHOGONAL,
    "relrnn": {"cell": "relrnn"} | _ORTHOGONAL,
    "lstm": {"cell": "lstm", "optimiser": "adam"} | _STAGED_LSTM,
    "h-detach": {"cell": "h-detach", "optimiser": "adam", "cell_options": {"p": 0.5}} | _STAGED_LSTM,
    "sab": {"cell": "sab", "optimiser": "adam"} | _STAGED_LSTM,
    "rellstm": {
        "cell": "rellstm",
        "learning_rate": 6e-3,
        "optimiser": "adamw",
        "weight_decay": 0.1,
        "curriculum_score": 0.98,
    },
}
"""Our recipes, which learn in thousands of iterations instead of 200,000. modReLU with half of h + c, the authors'
scale, holds a state over any delay; tanh with h + c learns a delay of 100 but no longer one. modReLU has no upper
limit, and an unconstrained matrix lets states grow until training diverges (`benchmarks/screened_divergence.py`), so
that MemRNN and RelRNN keep an orthogonal one. RNN-orth, whose matrix is unconstrained, takes small steps by Adam:
RMSprop's first steps are ten times as large. LSTM, h-detach, SAB and RelLSTM start with short delays (`STAGES`):
without them an LSTM recalls nothing for many thousand iterations. Weight decay makes the memory of a RelLSTM forget, so
that a long delay ends in the same state as a short one."""
_DOUBLING = (3, 6, 12, 25, 50, 100, 200, 500, 1000)
STAGES: dict[str, tuple[int, ...]] = {
    "lstm": _DOUBLING,
    "h-detach": _DOUBLING,
    "sab": _DOUBLING,
    "rellstm": (10, 30),
}
"""Delays of the copy task with which a network starts; only those below its final delay are used."""


def at_delay(
    name: str, network: Mapping[str, Any], delay: int, stages: Mapping[str, Sequence[int]] = STAGES
) -> dict[str, Any]:
    """Return a network with a delay, and with shorter delays first if it has stages."""
    shorter = " ".join(str(stage) for stage in stages.get(name, ()) if stage < delay)
    return changed_options(network, {"delay": delay} | ({"curriculum": shorter} if shorter else {}))


def at_delays(
    networks: Mapping[str, dict[str, Any]], delays: Sequence[int], stages: Mapping[str, Sequence[int]] | None = None
) -> dict[Subject, dict[str, Any]]:
    """Return every network at every delay, by default without shorter delays first."""
    return {
        about(name, delay=delay): at_delay(name, network, delay, stages or {})
        for name, network in networks.items()
        for delay in delays
    }


BASE = RunConfig(
    "recall",
    task="copy",
    task_options={"delay": 100},
    cell="relrnn",
    hidden_size=128,
    optimiser="adam",
    learning_rate=2e-4,
    clip=1.0,
    steps=200_000,
    batch_size=10,
    evaluate_every=100,
    evaluate_batches=10,
    checkpoint_every=500,
    target_score=0.999,
    threads=1,
)
"""Settings of the authors' code: 128 units, at most 200,000 batches of 10, gradients clipped to norm 1."""


def as_many_sequences(batch_size: int) -> dict[str, int]:
    """Return a batch size and the steps in which a network sees as many sequences as in 200,000 batches of 10.

    >>> as_many_sequences(128)
    {'batch_size': 128, 'steps': 15625}
    """
    return {"batch_size": batch_size, "steps": BASE.steps * BASE.batch_size // batch_size}


ATTENTIVE = ("memrnn", "relrnn", "sab")
LONG = {"leave_out": 20, "target_score": SOLVED}
"""Changes for networks of `ATTENTIVE` at delays beyond 100. A long backward pass leaves the range of float32 at rare
batches, which are left out. Other rare gradients are so large that one step along them destroys the memory, so that
training ends at the first evaluation with 99% recall."""


def with_long_delays(networks: Mapping[Subject, dict[str, Any]]) -> dict[Subject, dict[str, Any]]:
    """Return the networks, with `LONG` where it applies."""
    return {
        subject: {**network, **LONG}
        if subject.network in ATTENTIVE and network["task_options"]["delay"] > 100
        else network
        for subject, network in networks.items()
    }


BASELINES = ("rnn-orth", "exprnn", "memrnn", "lstm", "goru", "sab")
"""Networks of the tables that are not the authors' own."""
FEWER_UPDATES = Claim(
    about("relrnn"),
    f"iterations to {SOLVED:.0%} recall, as a share of the fastest baseline's",
    "significantly fewer",
    thesis("4.6.1 and B.4 Fig 2"),
    at_most(0.5, "our reading of 'significantly fewer': at most half of them, at the delay where they are most"),
)


def recall_claim(subject: Subject, quantity: str, percent: int | str, place: str) -> Claim:
    """Return the claim for a percentage of a table. Where a network ran out of memory, no recall is published."""
    if isinstance(percent, str):
        reason = "no recall is published here; the study attention-memory tests where a training runs out of memory"
        return Claim(subject, quantity, percent, thesis(place), reason=reason)
    near = as_printed(f"{percent}%", low=0.0, high=1.0)
    return Claim(subject, quantity, f"{percent}%", thesis(place), near, better="higher", chance=Copy().chance())


def claims_by_delay(table: Table, place: str) -> tuple[Claim, ...]:
    """Return the claims of a table of networks that are trained at each delay.

    The study attention-memory tests where a training runs out of memory.
    """
    return tuple(
        recall_claim(about(network, delay=delay), "recall", percent, place)
        for network, row in table.items()
        for delay, percent in row.items()
        if not isinstance(percent, str)
    )


class RecallStudy(SolvingStudy):
    """Networks that learn to recall symbols, until they recall 99.9% of them."""

    score = "accuracy"
    landmarks = ((SOLVED, 1.0),)
    score_in_words = "recall"
    table: Table
    caption = "Left: recall during training. Right: final recall (dots and lines) and published recall (circles)."
    published_base = BASE
    published_changes: Mapping[str, Mapping[str, Any]] = PUBLISHED

    def recall_by_delay(self, finished: Finished) -> dict[int, float]:
        """Return the recall of a network at each tested delay."""
        delay = finished.trial.settings["task_options"]["delay"]
        return {delay: finished.result["accuracy"]} if "loss" in finished.result else {}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        return [*super().summarise(results), *(self.updates(results) if FEWER_UPDATES in self.claims else ())]

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        return [until_solved(name, trials)]

    def updates(self, results: Sequence[Finished]) -> list[Row]:
        """Return the row that compares the RelRNN with the fastest baseline, at delays where both solved the task."""
        shares, places, used = [], [], []
        for delay in dict.fromkeys(each.trial.subject["delay"] for each in results):
            solved: dict[str, list[Finished]] = {}
            for each in finite(results):
                if each.trial.subject["delay"] == delay and self.solved(each.result):
                    solved.setdefault(each.trial.subject.network, []).append(each)
            steps = {network: median(map(_steps_to_solve, trials)) for network, trials in solved.items()}
            fastest = min(
                (network for network in steps if network in BASELINES), key=lambda name: steps[name], default=""
            )
            if fastest and "relrnn" in steps:
                shares.append(steps["relrnn"] / steps[fastest])
                places.append(f"{delay}: {steps['relrnn']:,.0f} to {steps[fastest]:,.0f} of {fastest}")
                used += [*solved["relrnn"], *solved[fastest]]
        if not shares:
            return []
        ours, remark = ", ".join(f"{share:.2g}" for share in shares), f"by delay, {'; '.join(places)}"
        return [self.compare(used, FEWER_UPDATES, [max(shares)], ours, remark, diverged=0)]

    def trained_as_long(self, finished: Finished) -> bool:
        """Whether the network has seen as many sequences as the published one; batches may be larger."""
        published = self.published_recipe(finished.trial)
        seen = finished.result["steps"] * finished.trial.settings["batch_size"]
        return seen >= published.steps * published.batch_size

    def as_published(self, trial: Trial) -> bool:
        """Whether the network is at least as large as the published one; `compare` reports other differences."""
        return trial.settings["hidden_size"] >= BASE.hidden_size

    def solved(self, result: Mapping[str, Any]) -> bool:
        return result["accuracy"] >= SOLVED

    def figure(self, results: Sequence[Finished]) -> Figure:
        """Draw learning curves, and measured and published recall at every delay."""
        figure = new_figure(7.2, 3.6)
        learning, lengths = figure.subplots(1, 2, width_ratios=(1, 1))
        networks = dict.fromkeys(each.trial.subject.network for each in results)
        colour_of = dict(zip(networks, colours(), strict=False))
        for each in results:
            curve, colour = each.result["curve"], colour_of[each.trial.subject.network]
            learning.plot(curve["step"], curve["accuracy"], color=colour, linewidth=1.2)
        for network, colour in colour_of.items():
            measured: dict[int, list[float]] = {}
            for each in results:
                if each.trial.subject.network == network:
                    for delay, recall in self.recall_by_delay(each).items():
                        measured.setdefault(delay, []).append(recall)
            means = {delay: mean(measured[delay]) for delay in sorted(measured)}
            lengths.plot(list(means), list(means.values()), color=colour, marker=".", label=network)
            published = self.table.get(network, {})
            shown = {
                delay: value / 100 for delay, value in published.items() if delay in means and isinstance(value, int)
            }
            lengths.plot(list(shown), list(shown.values()), "o", color=colour, fillstyle="none", markersize=9)
        learning.set(xlabel="iterations", ylabel="recall", ylim=(-0.03, 1.05))
        lengths.set(xlabel="delay", xscale="log", ylim=(-0.03, 1.05))
        delays = sorted({delay for each in results for delay in self.recall_by_delay(each)})
        lengths.set_xticks(delays, [f"{delay:,}" for delay in delays], rotation=45)
        lengths.minorticks_off()
        for axes in (learning, lengths):
            style_page_axes(axes)
        legend_above(figure, 4)
        return figure


def _steps_to_solve(finished: Finished) -> float:
    return first_step(finished.result["curve"], "accuracy", SOLVED) or finished.result["steps"]


def until_solved(name: str, trials: Sequence[Finished]) -> Row:
    """Return the row with the iterations to 99% recall and to the end of training."""
    steps = [first_step(each.result["curve"], "accuracy", SOLVED) for each in trials]
    ours = ", ".join("never" if step is None else f"{step:,.0f}" for step in steps)
    return Row(f"{name}: iterations to {SOLVED:.0%} recall", "", ours, remark=ended(trials))
