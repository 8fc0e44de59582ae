"""Eigenvalues of trained networks against the theory, by task, size and weight decay (Karuvally et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import product
from math import isnan
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import torch

from mnemoscope.cells import Elman
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, add_legend, style_page_axes
from mnemoscope.lenses import find_variables
from mnemoscope.lenses.variables import angle_error
from mnemoscope.replication.agreement import as_printed
from mnemoscope.replication.claims import Claim, Row, Subject, about, with_reason
from mnemoscope.replication.computed_study import plain_powers, spread
from mnemoscope.replication.learning_study import finite
from mnemoscope.replication.study import Finished, Preset, Trial, listed
from mnemoscope.replication.verdicts import Obstacle, Verdict
from mnemoscope.studies.karuvally2023.epochs import SaveEpochs, evaluated_accuracy, load_epoch
from mnemoscope.studies.karuvally2023.table_causes import explain_by_threshold
from mnemoscope.studies.karuvally2023.variable_binding import (
    CURRICULUM,
    LEARNED,
    NOTEBOOK,
    PUBLISHED_TRAINING,
    TRIALS,
    BindingStudy,
    smoke,
)
from mnemoscope.tasks import VariableBinding
from mnemoscope.training import load_model
from mnemoscope.training.callbacks import Callback

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED_SEEDS = 20
"""Number of seeds behind each published mean."""
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
    **PUBLISHED_TRAINING,
    curriculum_score=0.98,
    evaluate_every=500,
    checkpoint_every=1000,
    task_options={"variables": 8, "size": 8, "horizon": 100, "curriculum": CURRICULUM},
)
"""Published recipe."""
THRESHOLDS = (0.9, 0.98)
"""Accuracies at which a stage of the curriculum ended: the table has the better one of two trainings for each seed."""
SEEDS_AT_BOTH, SEEDS_AT_MOST = 2, 5
"""Highest seed, where nothing is learned, that is trained with both thresholds, and that is trained at all."""
LENS_SEEDS = 5
"""Highest seed whose networks are searched for variables, which takes seconds each."""
TEST_BATCHES = 10
"""Batches on which the accuracy of the table is measured."""
SHORTER = {
    name: getattr(BindingStudy.base, name)
    for name in ("learning_rate", "schedule", "steps", "curriculum_score", "evaluate_every")
}
"""Changes of the published recipe in the preset "cpu"."""


def _subject(task: str, size: int, decay: float) -> Subject:
    return about("", task, units=size, L2=decay, label=f"{task}, {size} units, L2 {decay:g}")


def _networks(
    thresholds: Sequence[float], tasks: Sequence[str] = TASKS, decays: Sequence[float] = DECAYS, **changes: Any
) -> dict[Subject, dict[str, Any]]:
    """Return a network for each cell of the table and each threshold of the curriculum."""
    networks = {}
    for task, size, decay, threshold in product(tasks, SIZES, decays, thresholds):
        cell = _subject(task, size, decay)
        label = f"{cell.name}, stages end at {threshold:g}"
        subject = replace(cell, condition=(*cell.condition, ("threshold", threshold)), label=label)
        network = {"hidden_size": size, "weight_decay": decay, "task_options": {"rule": task}}
        networks[subject] = {**network, "curriculum_score": threshold, **changes}
    return networks


def _claims() -> Iterator[Claim]:
    for (task, size), cells in TABLE.items():
        for decay, (angle, accuracy) in zip(DECAYS, cells, strict=True):
            subject = _subject(task, size, decay)
            near = as_printed(f"{accuracy:.2f}", seeds=PUBLISHED_SEEDS, high=1.0)
            yield Claim(subject, BindingStudy.score_in_words, accuracy, SOURCE, near, better="higher", chance=0.5)
            if angle is not None:
                near = as_printed(f"{angle:.4f}", seeds=PUBLISHED_SEEDS, low=0.0)
                yield Claim(subject, "mean angle error", angle, SOURCE, near, better="lower")


class BindingTable(BindingStudy):
    """All cells of the table, by the published recipe ("paper") or by a shorter one ("cpu").

    The released training starts all weights uniformly in +-1 / sqrt(units), trains each network twice, with two
    thresholds of the curriculum, and keeps the weights of some epochs (`epochs`). The table has, for each seed, the
    higher accuracy and the lower angle error of the two.
    """

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
            {"networks": _networks((SHORTER["curriculum_score"],)), "changes": SHORTER},
        ),
        "paper": Preset(
            "All cells by the published recipe: 20,000 steps, two thresholds of the curriculum, 20 seeds, but five "
            "where nothing is learned (L2 0.1), of which three are trained on a CPU. 696 trainings, each two minutes "
            "on one H200; tools/train_binding_table.py trains 20 to 80 of them at once.",
            {"networks": _networks(THRESHOLDS), "changes": {"device": "cuda"}},
            tuple(range(1, 21)),
        ),
        "larger-inputs": Preset(
            "Tasks 2 to 4 without L2 as in paper, but with input weights that start uniformly in +-1 / sqrt(8), which "
            "are three to four times as large.",
            {
                "networks": _networks(THRESHOLDS, TASKS[1:], (0.0,), cell_options={"input_scale": 8**-0.5}),
                "changes": {"device": "cuda"},
            },
            (1, 2, 3, 4, 5),
        ),
    }
    caption = (
        "Mean angle error of the eigenvalues of the networks that learned their task: ours against the published one."
    )

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        """Return the grid; input weights start as published, and a network that learns nothing has fewer seeds.

        No stage of its curriculum ends, so that the horizon stays short enough for a CPU, and both thresholds lead to
        the same network: the seeds after the second have one of them.
        """
        grid = []
        for trial in super().trials(settings, seeds):
            options, device = trial.settings["cell_options"], trial.settings["device"]
            if "input_scale" not in options:
                options = {**options, "input_scale": trial.settings["hidden_size"] ** -0.5}
            if trial.settings["weight_decay"] == DECAYS[-1] and trial.seed > SEEDS_AT_BOTH:
                if trial.seed > SEEDS_AT_MOST or trial.settings["curriculum_score"] != THRESHOLDS[-1]:
                    continue
                device = "cpu"
            grid.append(replace(trial, settings={**trial.settings, "cell_options": options, "device": device}))
        return grid

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        """Train and measure a network; hundreds of learning curves would make the results long."""
        result = super().run(trial, folder, progress)
        return {name: value for name, value in result.items() if name != "curve"}

    def callbacks(self, trial: Trial) -> Sequence[Callback]:
        return [SaveEpochs()] if trial.settings["steps"] == PUBLISHED.steps else []

    def measure(self, run: Path) -> dict[str, Any]:
        """Measure the network as the table does; if it learned the task, also search some for variables."""
        model, task, config = load_model(run)
        assert isinstance(task, VariableBinding)
        epoch = load_epoch(model, run, config.steps) if config.steps == PUBLISHED.steps else None
        accuracy = evaluated_accuracy(model, task, config, TEST_BATCHES)
        assert isinstance(model.cell, Elman)
        eigenvalues = torch.linalg.eigvals(model.cell.connectivity().detach().double())
        angles = angle_error(eigenvalues, task.F.eigenvalues())
        measured = {
            "epoch": epoch,
            "evaluated": accuracy,
            "angle_error": None if isnan(angles.mean) else angles.mean,
            "eigenvalues_missing": angles.missing,
            "eigenvalues_extra": angles.extra,
        }
        if accuracy < LEARNED or config.seed > LENS_SEEDS:
            return measured
        batch = task.batch(TRIALS, config.seed, 0, "test")
        found = find_variables(model, inputs=batch.inputs, variables=batch.targets)
        return {**measured, "status": found.status, "rule_found": found.selection == task.F}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        cells: dict[Subject, list[Finished]] = {}
        for finished in results:
            subject = finished.trial.subject
            condition = tuple(pair for pair in subject.condition if pair[0] != "threshold")
            label = subject.label.partition(", stages")[0]
            cells.setdefault(replace(subject, condition=condition, label=label), []).append(finished)
        learned = {(each.trial.subject["units"], each.trial.subject.task) for each in _learned(results)}
        return [row for cell, trials in cells.items() for row in self._rows(cell, trials, learned)]

    def _rows(self, cell: Subject, trials: Sequence[Finished], tasks: Set[tuple[Any, str]]) -> list[Row]:
        """Return the rows of one cell of the table: for each seed the better of its trainings.

        `tasks` are the sizes of networks with a task that they learned, at any L2.
        """
        stable, learned = finite(trials), _learned(trials)
        accuracies = [max(values) for values in _by_seed(stable, "evaluated")]
        whole = [each for each in learned if _all_eigenvalues(each.result)]
        errors = [min(values) for values in _by_seed(whole, "angle_error")]
        searched = [each for each in learned if "status" in each.result]
        explained = sum(each.result["status"] == "explained" for each in searched)
        rules = sum(each.result["rule_found"] for each in searched)
        remark = (
            f"{len(learned)} of {len(trials)} networks learned the task, {len(whole)} of them with as many eigenvalues "
            f"above 0.9 as the theory; of {len(searched)} searched for variables, F found in {rules}, explained "
            f"{explained}"
        )
        bits = self._row(
            cell, trials, self.score_in_words, accuracies, ".4g", _choices(trials), _alone(stable, "evaluated")
        )
        if bits.judgement.obstacle is Obstacle.CHANCE and bits.claim is not None:
            learner = any(units == cell["units"] and task != cell.task for units, task in tasks)
            bits = replace(bits, judgement=bits.claim.judge(bits.measured, bits.diverged, learner=learner))
        return [
            bits,
            self._row(cell, trials, "mean angle error", errors, ".2g", remark, _alone(whole, "angle_error")),
        ]

    def _row(
        self,
        cell: Subject,
        trials: Sequence[Finished],
        quantity: str,
        measured: Sequence[float],
        form: str,
        remark: str,
        by_threshold: Mapping[float, Sequence[float]],
    ) -> Row:
        name, ours = f"{cell.name}: {quantity}", _brief(measured, form)
        claim = self.find_claim(quantity, cell)
        if claim is None:
            return Row(name, "", ours, remark=remark)
        seeds, stable = ({each.trial.seed for each in some} for some in (trials, finite(trials)))
        row = self.compare(trials, claim, measured, ours, remark, name, diverged=len(seeds - stable))
        if row.verdict not in (Verdict.BETTER, Verdict.WORSE):
            return row
        return with_reason(row, explain_by_threshold(claim, by_threshold) or row.judgement.reason)

    def as_published(self, trial: Trial) -> bool:
        names = ("steps", "batch_size", "learning_rate", "schedule")
        recipe = all(trial.settings[name] == getattr(PUBLISHED, name) for name in names)
        return recipe and trial.settings["cell_options"]["input_scale"] == trial.settings["hidden_size"] ** -0.5

    def figure(self, results: Sequence[Finished]) -> Figure:
        """Draw our values against the published one, for every cell that has both."""
        figure = new_figure(7.2, 4.4)
        axes = figure.add_subplot()
        marks = {0.0: ("o", "stable"), 0.001: ("D", "saddle-1"), 0.1: ("s", "unstable")}
        for row in self.summarise(results):
            if row.claim is None or row.claim.quantity != "mean angle error" or not row.measured:
                continue
            subject, published = row.claim.subject, float(row.claim.value)
            marker, colour = marks[float(subject["L2"] or 0)]
            axes.plot([published] * len(row.measured), row.measured, marker, color=COLOUR[colour], markersize=4)
            place = (published, max(row.measured))
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


def _alone(trials: Sequence[Finished], key: str) -> dict[float, list[float]]:
    """Return the values by the threshold of the training."""
    values: dict[float, list[float]] = {}
    for each in trials:
        values.setdefault(each.trial.settings["curriculum_score"], []).append(each.result[key])
    return values


def _brief(values: Sequence[float], form: str) -> str:
    """Return up to five values, or the mean and the range of more, as text."""
    if len(values) <= 5:
        return listed(values, form) or "none"
    return f"{mean(values):{form}} ({spread(values, form)})"


def _learned(trials: Sequence[Finished]) -> list[Finished]:
    return [each for each in finite(trials) if each.result["evaluated"] >= LEARNED]


def _all_eigenvalues(result: Mapping[str, Any]) -> bool:
    """Whether the network has as many eigenvalues above 0.9 as the theory; the table skips the others."""
    return result["eigenvalues_missing"] == result["eigenvalues_extra"] == 0


def _by_seed(trials: Sequence[Finished], key: str) -> list[list[float]]:
    values: dict[int, list[float]] = {}
    for each in trials:
        values.setdefault(each.trial.seed, []).append(each.result[key])
    return [values[seed] for seed in sorted(values)]


def _choices(trials: Sequence[Finished]) -> str:
    """Return the mean accuracies that other choices of the weights and thresholds would give, as text."""
    parts = [f"{len(_by_seed(trials, 'parameters'))} seeds"]
    for threshold in sorted({each.trial.settings["curriculum_score"] for each in trials}):
        chosen = [each for each in finite(trials) if each.trial.settings["curriculum_score"] == threshold]
        if chosen:
            last, kept = (mean(each.result[key] for each in chosen) for key in ("accuracy", "evaluated"))
            parts.append(f"stages end at {threshold:g}: last weights {last:.3g}, evaluated epoch {kept:.3g}")
    if diverged := len(trials) - len(finite(trials)):
        parts.append(f"{diverged} did not stay finite")
    return "; ".join(parts)


STUDY = BindingTable()
