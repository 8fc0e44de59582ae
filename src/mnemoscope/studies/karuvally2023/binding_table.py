"""Eigenvalues of trained networks against the theory, by task, size and weight decay (Karuvally et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, add_legend, style_page_axes
from mnemoscope.replication.agreement import as_printed
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.computed_study import plain_powers
from mnemoscope.replication.learning_study import by_name
from mnemoscope.replication.study import Finished, Preset, Trial
from mnemoscope.studies.karuvally2023.variable_binding import CURRICULUM, LEARNED, NOTEBOOK, BindingStudy, smoke

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCE = NOTEBOOK("its table, 20 seeds")
TASKS, SIZES, DECAYS = ("T1", "T2", "T3", "T4"), (64, 128), (0.0, 0.001, 0.1)
TABLE: dict[tuple[str, int], tuple[tuple[float | None, float], ...]] = {
    ("T1", 64): ((None, 0.97), (None, 0.88), (None, 0.50)),
    ("T1", 128): ((0.0005, 1.00), (None, 0.93), (None, 0.50)),
    ("T2", 64): ((0.0075, 1.00), (None, 0.85), (None, 0.50)),
    ("T2", 128): ((0.0055, 0.98), (0.0031, 0.98), (None, 0.50)),
    ("T3", 64): ((0.0026, 1.00), (0.0010, 0.97), (None, 0.50)),
    ("T3", 128): ((0.0031, 0.98), (0.0005, 1.00), (None, 0.50)),
    ("T4", 64): ((0.0112, 0.94), (0.0011, 1.00), (None, 0.50)),
    ("T4", 128): ((0.0022, 1.00), (0.0006, 1.00), (None, 0.50)),
}
"""For each weight decay: mean angle error of the networks that learned the task, and accuracy."""

PUBLISHED = replace(
    BindingStudy.base,
    name="binding-table",
    learning_rate=1e-3,
    schedule="constant",
    steps=20_000,
    curriculum_score=0.98,
    evaluate_every=500,
    checkpoint_every=1000,
    task_options={"variables": 8, "size": 8, "horizon": 100, "curriculum": CURRICULUM},
)
"""Published recipe."""
SHORTER = {
    name: getattr(BindingStudy.base, name)
    for name in ("learning_rate", "schedule", "steps", "curriculum_score", "evaluate_every")
}
"""Changes of the published recipe in the preset "cpu"."""


def _subject(task: str, size: int, decay: float) -> Subject:
    return about("", task, units=size, L2=decay, label=f"{task}, {size} units, L2 {decay:g}")


def _networks(sizes: Sequence[int], decays: Sequence[float]) -> dict[Subject, dict[str, Any]]:
    return {
        _subject(task, size, decay): {"hidden_size": size, "weight_decay": decay, "task_options": {"rule": task}}
        for task, size, decay in product(TASKS, sizes, decays)
    }


def _claims() -> Iterator[Claim]:
    for (task, size), cells in TABLE.items():
        for decay, (angle, accuracy) in zip(DECAYS, cells, strict=True):
            subject = _subject(task, size, decay)
            near = as_printed(f"{accuracy:.2f}", high=1.0)
            yield Claim(subject, BindingStudy.score_in_words, accuracy, SOURCE, near, better="higher", chance=0.5)
            if angle is not None:
                yield Claim(
                    subject, "mean angle error", angle, SOURCE, as_printed(f"{angle:.4f}", low=0.0), better="lower"
                )


class BindingTable(BindingStudy):
    """All cells of the table, by the published recipe ("paper") or by a shorter one ("cpu")."""

    name = "binding-table"
    title = "Eigenvalues of networks that bind variables"
    question = "How close are the eigenvalues of trained networks to the roots of unity that the theory predicts?"
    claims = tuple(_claims())
    base = PUBLISHED
    presets: Mapping[str, Preset] = {
        "smoke": smoke(rule="repeat"),
        "cpu": Preset(
            "All cells by a shorter recipe, one seed: 3,000 steps with a learning rate of 0.003 that falls "
            "to 0, and horizons that grow only once 99.9% of the bits are right. Twenty minutes on one core.",
            {"networks": _networks(SIZES, DECAYS), "changes": SHORTER},
        ),
        "paper": Preset(
            "All cells by the published recipe: 20,000 steps; three seeds (published: 20). Two hours per seed "
            "on one core.",
            {"networks": _networks(SIZES, DECAYS), "changes": {}},
            (0, 1, 2),
        ),
    }
    caption = (
        "Mean angle error of the eigenvalues of the networks that learned their task: ours against the published one."
    )

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        learned = _learned(trials)
        errors = [outcome["angle_error"] for outcome in learned if outcome["angle_error"] is not None]
        explained = sum(outcome["status"] == "explained" for outcome in learned)
        rules = sum(outcome["rule_found"] for outcome in learned)
        remark = f"{len(learned)} of {len(trials)} networks learned the task; F found in {rules}, explained {explained}"
        return [self.row(trials, "mean angle error", errors, ".2g", remark)]

    def as_published(self, trial: Trial) -> bool:
        names = ("steps", "batch_size", "learning_rate", "schedule")
        return all(trial.settings[name] == getattr(PUBLISHED, name) for name in names)

    def figure(self, results: Sequence[Finished]) -> Figure:
        """Draw our values against the published one, for every cell that has both."""
        figure = new_figure(7.2, 4.4)
        axes = figure.add_subplot()
        marks = {0.0: ("o", "stable"), 0.001: ("D", "saddle-1"), 0.1: ("s", "unstable")}
        for trials in by_name(results).values():
            subject = trials[0].trial.subject
            claim = self.find_claim("mean angle error", subject)
            errors = [outcome["angle_error"] for outcome in _learned(trials) if outcome["angle_error"]]
            if claim is None or not errors:
                continue
            marker, colour = marks[trials[0].trial.settings["weight_decay"]]
            axes.plot([claim.value] * len(errors), errors, marker, color=COLOUR[colour], markersize=6)
            place = (float(claim.value), max(errors))
            axes.annotate(subject.task, place, xytext=(4, 4), textcoords="offset points", color=COLOUR["muted"])
        for decay, (marker, colour) in list(marks.items())[:2]:
            axes.plot([], [], marker, color=COLOUR[colour], label=f"L2 {decay:g}")
        edges = (2e-5, 2e-2)
        axes.plot(edges, edges, color=COLOUR["ink"], linestyle="dotted", linewidth=1, label="equal")
        axes.set(xscale="log", yscale="log", xlim=edges, ylim=edges, xlabel="published mean angle error", ylabel="ours")
        style_page_axes(axes)
        plain_powers(axes.xaxis)
        plain_powers(axes.yaxis)
        add_legend(axes, "upper left")
        return figure


def _learned(trials: Sequence[Finished]) -> list[Mapping[str, Any]]:
    return [finished.result for finished in trials if finished.result.get("accuracy", 0) >= LEARNED]


STUDY = BindingTable()
