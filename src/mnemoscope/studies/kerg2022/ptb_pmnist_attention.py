"""Permuted MNIST and the Penn Treebank for networks with attention to their past (Kerg, chapter 4 Table 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemoscope.config.run_config import RunConfig, changed
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import style_page_axes
from mnemoscope.replication.agreement import as_printed, at_least
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, Subject, about
from mnemoscope.replication.computed_study import legend_above
from mnemoscope.replication.learning_study import LearningStudy, colours
from mnemoscope.replication.study import Finished, Preset, Trial
from mnemoscope.studies.kerg2022 import psmnist, ptb_bpc
from mnemoscope.studies.kerg2022.notation import thesis
from mnemoscope.training import load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODRELU = {"nonlinearity": "modrelu", "scale": 0.5}
"""modReLU is unbounded, so `s = h + c` would grow from step to step; the authors' code halves it."""
DIGITS: dict[str, dict[str, Any]] = {
    "rnn": {"cell": "rnn", "learning_rate": 1e-4},
    "rnn-orth": {"cell": "rnn-orth", "learning_rate": 1e-4},
    "exprnn": {"cell": "exprnn", "learning_rate": 1e-4, "orthogonal_learning_rate": 1e-5},
    "relrnn": {"cell": "relrnn", "learning_rate": 3e-4, "cell_options": MODRELU},
    "lstm": {"cell": "lstm", "learning_rate": 2e-4},
    "h-detach": {"cell": "h-detach", "learning_rate": 2e-4, "cell_options": {"p": 0.25}},
    "sab": {"cell": "sab", "learning_rate": 2e-4},
    "rellstm": {"cell": "rellstm", "learning_rate": 2e-4},
}
"""Recipes of Kerg, B.4 Table 5. It lacks RNN, which is trained as orth-RNN, and h-detach, SAB and RelLSTM, which are
trained as LSTM. The p of h-detach is that of its authors for MNIST."""
CHARACTERS: dict[str, dict[str, Any]] = {
    "rnn": {"cell": "rnn", "learning_rate": 1e-3, "cell_options": {"nonlinearity": "tanh"}},
    "rnn-orth": {"cell": "rnn-orth", "learning_rate": 1e-3, "cell_options": {"nonlinearity": "tanh"}},
    "exprnn": {
        "cell": "exprnn",
        "learning_rate": 3e-3,
        "orthogonal_learning_rate": 3e-4,
        "cell_options": {"nonlinearity": "tanh"},
    },
    "relrnn": {"cell": "relrnn", "learning_rate": 3e-4, "cell_options": {"short_term": 10, "relevant": 5}},
    "lstm": {"cell": "lstm", "learning_rate": 2e-4},
    "sab": {"cell": "sab", "learning_rate": 2e-4},
    "rellstm": {"cell": "rellstm", "learning_rate": 2e-4, "cell_options": {"short_term": 10, "relevant": 5}},
}
"""Recipes of Kerg, B.4 Table 6. The RNN is trained as orth-RNN, SAB as LSTM, and RelLSTM as LSTM with the screen of
RelRNN."""
TABLE: dict[str, tuple[float | None, int | None, float]] = {
    "rnn": (1.56, 66, 90.4),
    "rnn-orth": (1.53, 66, 93.4),
    "exprnn": (1.49, 68, 96.6),
    "relrnn": (1.43, 69, 92.8),
    "lstm": (1.36, 73, 91.1),
    "h-detach": (None, None, 92.3),
    "sab": (1.37, None, 94.2),
    "rellstm": (1.36, 73, 94.3),
}
"""Bits per character and accuracy in percent on the Penn Treebank, accuracy in percent on permuted MNIST."""
BEGINNING = {"hidden_size": 64, "steps": 1000, "learning_rate": 1e-3, "evaluate_every": 100}
"""Settings of small networks on a CPU."""
SOURCE = thesis("chapter 4 Table 3")
TASKS: dict[str, RunConfig] = {
    "pmnist": replace(psmnist.STUDY.base, name="ptb-pmnist-attention", optimiser="adam", clip=1.0),
    # Fig 5 of B.4 has windows of 125 steps; units and epochs are not stated, so they are those of the study ptb-bpc
    "ptb": replace(ptb_bpc.BASE, name="ptb-pmnist-attention", optimiser="adam", clip=1.0, task_options={"length": 125}),
}


def _claims() -> tuple[Claim, ...]:
    claims = []
    for network, (bits, characters, digits) in TABLE.items():
        if bits is not None:
            claims.append(ptb_bpc.bpc(_subject("ptb", network), bits, SOURCE))
        for task, percent in (("ptb", characters), ("pmnist", digits)):
            if percent is not None:
                subject = _subject(task, network)
                claims.append(
                    Claim(subject, "accuracy", f"{percent}%", SOURCE, as_printed(f"{percent}%"), better="higher")
                )
    dense = at_least(0.5, "our reading of 'dense': the exponential of the entropy is at least half of their number")
    for task in TASKS:
        claims.append(
            Claim(
                _subject(task, "relrnn"),
                "attended states, as a share of those that it can attend to",
                "dense attention",
                thesis("4.6.2 and B.4 Fig 5 and 7"),
                dense,
                out_of_reach="the study does not record the attention of its networks yet",
            )
        )
    curves = Claim(
        EVERYTHING,
        "learning curves on permuted MNIST",
        "a picture, without a statement",
        thesis("B.4 Fig 6"),
        reason="a picture without a statement; the table has where the curves end",
    )
    return (*claims, curves)


def _subject(task: str, network: str) -> Subject:
    return about(network, task, label=f"{task}, {network}")


class AttentionOnData(LearningStudy):
    """Train networks with and without attention on two data sets.

    The settings of a preset have `networks` and `changes` for each task.
    """

    name = "ptb-pmnist-attention"
    title = "Permuted MNIST and the Penn Treebank with attention"
    question = "Does attention to a few past states help where relevant inputs are everywhere?"
    score = "accuracy"
    score_in_words = "accuracy"
    claims = _claims()
    base = TASKS["pmnist"]
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "A few iterations of a small network on each task, to check that the code runs.",
            {
                "pmnist": {"networks": {"relrnn": DIGITS["relrnn"]}, "changes": psmnist.SMOKE},
                "ptb": {"networks": {"rellstm": CHARACTERS["rellstm"]}, "changes": ptb_bpc.SMOKE},
            },
        ),
        "cpu": Preset(
            "64 units, 1,000 iterations, 7 pixels per step: only the beginning of training.",
            {
                "pmnist": {
                    "networks": {name: DIGITS[name] for name in ("relrnn", "rellstm", "lstm")},
                    "changes": {**BEGINNING, "task_options": {"group": 7}, "evaluate_batches": 5},
                },
                "ptb": {
                    "networks": {name: CHARACTERS[name] for name in ("relrnn", "rellstm", "lstm")},
                    "changes": {**BEGINNING, "embedding": 32, "batch_size": 32, "evaluate_batches": 2},
                },
            },
        ),
        "paper": Preset(
            "20 epochs, 512 units on permuted MNIST, 1,024 units on the Penn Treebank, on a GPU. RNN and "
            "RNN-orth of the results (Penn Treebank, seed 0) were trained by another implementation of the scan over "
            "time, which is not in this repository and agrees with this one up to rounding (1.2e-6): this command "
            "repeats them approximately.",
            {
                "pmnist": {"networks": DIGITS, "changes": {"device": "cuda", "steps": 20 * psmnist.EPOCH}},
                "ptb": {"networks": CHARACTERS, "changes": {"device": "cuda", "steps": 20 * ptb_bpc.EPOCH}},
            },
        ),
    }
    cites = ("kerg2020", "le2015", "marcus1993", "mikolov2012")
    caption = "Validation accuracy during training."

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        return [
            Trial(
                f"{task}, {network}",
                asdict(changed(changed(TASKS[task], changes), chosen["changes"], seed=seed)),
                seed,
                _subject(task, network),
            )
            for task, chosen in settings.items()
            for network, changes in chosen["networks"].items()
            for seed in seeds
        ]

    def as_published(self, trial: Trial) -> bool:
        """Whether the task, the units and the batches are as published; the source does not state the epochs."""
        base = TASKS[trial.subject.task]
        return all(
            trial.settings[name] == getattr(base, name) for name in ("task_options", "hidden_size", "batch_size")
        )

    def measure(self, run: Path) -> dict[str, Any]:
        """Return the scores on the test text in ten streams."""
        model, task, config = load_model(run)
        whole = config.task == "ptb" and config.evaluate_batches is None
        return ptb_bpc.in_released_streams(model, task, config) if whole else {}

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        bits = [each.result["bpc"] for each in trials if "bpc" in each.result]
        return [self.row(trials, "bits per character", bits)] if bits else []

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 3.6)
        tasks = list(dict.fromkeys(each.trial.subject.task for each in results))
        panels = dict(zip(tasks, figure.subplots(1, len(tasks), squeeze=False)[0], strict=True))
        networks = dict.fromkeys(each.trial.subject.network for each in results)
        colour_of = dict(zip(networks, colours(), strict=False))
        lines = {}
        for each in results:
            subject, curve = each.trial.subject, each.result["curve"]
            colour = colour_of[subject.network]
            (lines[subject.network],) = panels[subject.task].plot(curve["step"], curve["accuracy"], color=colour)
        for task, axes in panels.items():
            axes.set(xlabel=f"iterations, {task}")
            style_page_axes(axes)
        panels[tasks[0]].set_ylabel("accuracy")
        legend_above(figure, 4, lines)
        return figure


STUDY = AttentionOnData()
