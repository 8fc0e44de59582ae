"""The accuracy of a trained network at spans of its task that it was, and was not, trained at."""

from __future__ import annotations

from collections.abc import Mapping

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, PHONE_WIDTH
from mnemoscope.inspection.cost import HOW_TO_MEASURE, is_quick
from mnemoscope.inspection.on_task import NetworkOnTask
from mnemoscope.lenses import SpanScores
from mnemoscope.lenses.behaviour.figure import draw_spans
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup
from mnemoscope.tasks import Task
from mnemoscope.training import evaluate_loads, evaluate_spans

TRIALS = 64
"""Trials at each span."""


def measure_spans(run: NetworkOnTask) -> tuple[SpanScores | None, str]:
    """Return the accuracy at several spans, and a sentence on those that would take long.

    The trials are of the validation split, which is new to a network that was trained on a generated task.
    """
    quick, note = _quick(run, run.task.span_tests(), run.task.span_label)
    scores = evaluate_spans(run.model, run.task, quick, sequences=TRIALS, seed=run.seed) if quick else None
    return scores, note


def measure_loads(run: NetworkOnTask) -> tuple[SpanScores | None, str]:
    """Return the same at several loads: numbers of items that the network must hold at once."""
    quick, note = _quick(run, run.task.load_tests(), run.task.load_label)
    scores = evaluate_loads(run.model, run.task, quick, sequences=TRIALS, seed=run.seed) if quick else None
    return scores, note


def _quick(run: NetworkOnTask, tests: Mapping[int, Task], label: str) -> tuple[dict[int, Task], str]:
    """Return the tests that are quick together, and a sentence on the others."""
    quick, steps = {}, 0
    for span, task in tests.items():
        steps += len(task.batch(1, run.seed, 0, "validation").mask)
        if is_quick(run.model.cell, steps, TRIALS, run.options):
            quick[span] = task
    slow = [span for span in tests if span not in quick]
    note = f"A {label} of {', '.join(map(str, slow))} takes long and was not measured. {HOW_TO_MEASURE}" if slow else ""
    return quick, note


def spans_section(scores: SpanScores | None, note: str, label: str) -> Section:
    """Return the section with the accuracy at each span, and the note on spans that were not measured."""
    title = f"Accuracy against the {label}"
    if scores is None:
        return Section(title, note, "")
    figure = draw_spans(scores, COLOUR, figure=new_figure(PHONE_WIDTH, 3.2), font_size=PAGE_FONT_SIZE)
    chance = " Dashed: the best predictor without memory." if scores.chance is not None else ""
    trials = f"{scores.trials} new trials at each, with 95% intervals over these."
    caption = f"{trials} Dotted: the longest possible in training.{chance} {note}".strip()
    alt = f"Accuracy at each {label}."
    return Section(title, scores.summary(), figure_markup(figure, "spans", alt=alt, caption=caption))
