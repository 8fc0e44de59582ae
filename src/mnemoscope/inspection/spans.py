"""The accuracy of a trained network at spans of its task that it was, and was not, trained at."""

from __future__ import annotations

import torch

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, PHONE_WIDTH
from mnemoscope.inspection.cost import HOW_TO_MEASURE, is_quick
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.lenses import SpanScores, record_behaviour
from mnemoscope.lenses.behaviour.figure import draw_spans
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup
from mnemoscope.tasks import Task
from mnemoscope.training import evaluate_tasks

FACTORS = (0.25, 0.5, 1, 1.5, 2, 4)
"""Spans that are measured, as multiples of the longest in training."""
TRIALS = 64
"""Trials at each span."""


def measure_spans(run: LoadedRun) -> tuple[SpanScores | None, str]:
    """Return the accuracy at several spans, and a sentence on those that would take long.

    The trials are of the validation split, which is new to a network that was trained on a generated task.
    """
    tasks = _tasks(run.task)
    quick, steps = {}, 0
    for span, task in tasks.items():
        steps += len(task.batch(1, run.config.seed, 0, "validation").mask)
        if is_quick(run.model.cell, steps, TRIALS, run.options):
            quick[span] = task
    slow = [span for span in tasks if span not in quick]
    label = run.task.span_label
    note = f"A {label} of {', '.join(map(str, slow))} takes long and was not measured. {HOW_TO_MEASURE}" if slow else ""
    if not quick:
        return None, note
    scores = evaluate_tasks(run.model, quick, sequences=TRIALS, seed=run.config.seed)
    accuracy = torch.tensor([scores[span]["accuracy"] for span in quick], dtype=torch.float64)
    last = next(reversed(quick.values()))
    spans = torch.tensor(list(quick))
    return SpanScores(label, spans, accuracy, run.task.longest_span, TRIALS, _uninformed(run, last)), note


def spans_section(scores: SpanScores | None, note: str, label: str) -> Section:
    """Return the section with the accuracy at each span, and the note on spans that were not measured."""
    title = f"Accuracy against the {label}"
    if scores is None:
        return Section(title, note, "")
    figure = draw_spans(scores, COLOUR, figure=new_figure(PHONE_WIDTH, 3.2), font_size=PAGE_FONT_SIZE)
    constant = " Dashed: the best constant answer." if scores.uninformed is not None else ""
    caption = f"{scores.trials} new trials at each. Dotted: the longest possible in training.{constant} {note}".strip()
    alt = f"Accuracy at each {label}."
    return Section(title, scores.summary(), figure_markup(figure, "spans", alt=alt, caption=caption))


def _tasks(task: Task) -> dict[int, Task]:
    """Return the task at each span, in increasing order; spans that the task cannot have are left out."""
    tasks: dict[int, Task] = {}
    for span in sorted({round(factor * task.longest_span) for factor in FACTORS}):
        try:
            tasks[span] = task.at(span)
        except ValueError:  # fewer steps than symbols, or more items than there are different ones
            continue
    return tasks


def _uninformed(run: LoadedRun, task: Task) -> float | None:
    """Return the accuracy of the best constant answer, if answers are classes, bits or signs."""
    batch = task.batch(TRIALS, run.config.seed, 0, "validation")
    if batch.targets.is_floating_point():
        due = batch.targets[batch.mask]
        if not bool((due.abs() == 1).all()):
            return None
        signs = due.mean(0).sign() + (due.mean(0) == 0)
        return task.scores(signs.expand_as(batch.targets), batch)["accuracy"]
    return record_behaviour(run.model, batch.inputs, batch.targets, mask=task.recalled(batch)).uninformed
