"""What the studies of recall by attentive networks share (Kerg, chapter 4 and B.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any

from mnemoscope.config.run_config import RunConfig
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import style_page_axes
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.computing import legend_above
from mnemoscope.replication.learning import colours, first_step
from mnemoscope.replication.solving import SolvingStudy, changed_options, ended
from mnemoscope.replication.study import Finished, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOLVED = 0.99
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
"""Kerg, B.4 Table 3 (copy): learning rate 0.0002 for all. What is not told there: MemRNN and RelLSTM are trained as
RelRNN, h-detach and SAB as LSTM; the rate of the orthogonal part is that of expRNN's own code."""
_MODRELU = {"optimiser": "rmsprop", "cell_options": {"nonlinearity": "modrelu", "scale": 0.5}}
_STAGES = {"optimiser": "adamw", "weight_decay": 0.1, "curriculum_score": 0.98}
OURS: dict[str, dict[str, Any]] = {
    "rnn-orth": {"cell": "rnn-orth", "optimiser": "rmsprop", "learning_rate": 1e-3},
    "exprnn": {"cell": "exprnn", "optimiser": "rmsprop", "learning_rate": 1e-3, "orthogonal_learning_rate": 1e-4},
    "memrnn": {"cell": "memrnn", "learning_rate": 1e-3} | _MODRELU,
    "relrnn": {"cell": "relrnn", "learning_rate": 1e-3} | _MODRELU,
    "lstm": {"cell": "lstm", "learning_rate": 3e-3},
    "h-detach": {"cell": "h-detach", "learning_rate": 3e-3, "cell_options": {"p": 0.5}},
    "sab": {"cell": "sab", "learning_rate": 3e-3},
    "rellstm": {"cell": "rellstm", "learning_rate": 6e-3} | _STAGES,
}
"""What learns in thousands of iterations in place of 200,000. modReLU with half of h + c, the authors' scale, holds a
state over any delay, where tanh with h + c learns a delay of 100 and no longer one. A RelLSTM begins with short delays;
weight decay lets its memory forget, so that a long delay ends as a short one does."""


def at_delays(networks: Mapping[str, dict[str, Any]], delays: Sequence[int]) -> dict[Subject, dict[str, Any]]:
    """Return every network at every delay."""
    return {
        about(name, delay=delay): changed_options(network, {"delay": delay})
        for name, network in networks.items()
        for delay in delays
    }


def in_stages(networks: Mapping[str, dict[str, Any]], curriculum: str) -> dict[str, dict[str, Any]]:
    """The networks; those that begin with easier tasks, with these delays."""
    return {
        name: changed_options(network, {"curriculum": curriculum}) if "curriculum_score" in network else network
        for name, network in networks.items()
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
"""As the authors' code has it: 128 units, at most 200,000 batches of 10, gradients no longer than 1."""


def published_recall(subject: Subject, quantity: str, percent: int | str, source: Source) -> Claim:
    """Return the claim for a percentage of a table; 99% and more matches 99% to 100%, the rest within 10 points."""
    if isinstance(percent, str):
        return Claim(subject, quantity, percent, source)
    low, high = (SOLVED, 1.0) if percent >= 99 else (max(0.0, percent / 100 - 0.1), percent / 100 + 0.1)
    return Claim(subject, quantity, f"{percent}%", source, tolerance=(low, high), better="higher")


class RecallStudy(SolvingStudy):
    """Networks that learn to recall symbols, until they recall 99.9% of them."""

    score = "accuracy"
    landmarks = ((SOLVED, 1.0),)
    score_in_words = "recall"
    table: Mapping[str, Mapping[int, int | str]]
    """Published percentages: network, delay."""
    published_base = BASE
    published_changes: Mapping[str, Mapping[str, Any]] = PUBLISHED

    def recalled(self, one: Finished) -> dict[int, float]:
        """What a network recalls at each delay at which it was tested."""
        return {one.trial.settings["task_options"]["delay"]: one.result["accuracy"]} if "loss" in one.result else {}

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        return [until_solved(name, trials)]

    def as_published(self, trial: Trial) -> bool:
        """Whether the network is no smaller than the published one; what else differs is told beside."""
        return trial.settings["hidden_size"] >= BASE.hidden_size

    def solved(self, result: Mapping[str, Any]) -> bool:
        return result["accuracy"] >= SOLVED

    def figure(self, results: Sequence[Finished]) -> Figure:
        """Learning curves, and recall at every delay beside what was published."""
        figure = new_figure(7.2, 3.6)
        learning, lengths = figure.subplots(1, 2, width_ratios=(1, 1))
        networks = dict.fromkeys(one.trial.subject.network for one in results)
        colour_of = dict(zip(networks, colours(), strict=False))
        for one in results:
            curve, colour = one.result["curve"], colour_of[one.trial.subject.network]
            learning.plot(curve["step"], curve["accuracy"], color=colour, linewidth=1.2)
        for network, colour in colour_of.items():
            found: dict[int, list[float]] = {}
            for one in results:
                if one.trial.subject.network == network:
                    for delay, recall in self.recalled(one).items():
                        found.setdefault(delay, []).append(recall)
            means = {delay: mean(found[delay]) for delay in sorted(found)}
            lengths.plot(list(means), list(means.values()), color=colour, marker=".", label=network)
            told = self.table.get(network, {})
            shown = {at: value / 100 for at, value in told.items() if at in means and isinstance(value, int)}
            lengths.plot(list(shown), list(shown.values()), "o", color=colour, fillstyle="none", markersize=9)
        learning.set(xlabel="iterations", ylabel="recall", ylim=(-0.03, 1.05))
        lengths.set(xlabel="delay", xscale="log", ylim=(-0.03, 1.05))
        delays = sorted({delay for one in results for delay in self.recalled(one)})
        lengths.set_xticks(delays, [f"{delay:,}" for delay in delays], rotation=45)
        lengths.minorticks_off()
        for axes in (learning, lengths):
            style_page_axes(axes)
        legend_above(figure, 4)
        return figure


def until_solved(name: str, trials: Sequence[Finished]) -> Row:
    """How long it took to recall 99%, and when training stopped."""
    found = [first_step(one.result["curve"], "accuracy", SOLVED) for one in trials]
    told = ", ".join("never" if step is None else f"{step:,.0f}" for step in found)
    return Row(f"{name}: iterations to {SOLVED:.0%} recall", "", told, remark=ended(trials))
